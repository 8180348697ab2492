/**
 * A program that uses the SDK: pause, stop, snapshots there and back, forks. It prints its results;
 * `life.test.ts` runs it on each runtime.
 */
import { Buffer } from 'node:buffer'
import process from 'node:process'
import { Readable } from 'node:stream'
import { AgentPod, isAgentPodError } from '../../../src/exports/client.ts'

const [url = '', key = ''] = process.argv.slice(2)
const pod = new AgentPod({ url, key })
const say = (line: string): void => void process.stdout.write(`${line}\n`)

const sandbox = await pod.create({ name: 'life', lifetime: { whenOver: 'stop' } })
await sandbox.writeFile('/data', Buffer.alloc(1_000_000, 'x'))
for (const verb of ['pause', 'resume', 'stop', 'start'] as const) say((await sandbox[verb]()).info.state)

const snapshot = await sandbox.snapshot({ name: 'golden' })
say(`${(await pod.snapshots.list({ sandbox: sandbox.id })).length} snapshot`)
const chunks: Buffer[] = []
for await (const chunk of await pod.snapshots.export(snapshot.id)) chunks.push(Buffer.from(chunk))
const archive = Buffer.concat(chunks)
await pod.snapshots.remove('golden')
const pieces = Readable.from([archive.subarray(0, 1000), archive.subarray(1000)])
await pod.snapshots.import(pieces, { name: 'back' })
const copy = await pod.create({ snapshot: 'back' })
say(`${(await copy.readText('/data')).length} bytes`)
const forks = await copy.fork({ count: 2 })
say(`${forks.length} forks`)

const damaged = await pod.snapshots.import(archive.subarray(0, -1)).catch((error: unknown) => error)
say(isAgentPodError(damaged) ? damaged.reason : String(damaged))

const child = sandbox.exec('sh', { args: ['-c', 'echo up; sleep 1000'] })
const output = child.output()
await output.next()
const next = output.next().catch((error: unknown) => error)
await sandbox.stop()
const cut = await next
say(isAgentPodError(cut) ? cut.reason : String(cut))
say((await pod.get('life')).info.state)

for (const one of [sandbox, copy, ...forks]) await one.destroy()
await pod.snapshots.remove('back')
pod.close()
process.exit(0)
