/**
 * Sends small HTTP requests from a sandbox through the egress process to a server on this machine, and prints
 * the processor time of each program for one request. Usage, as root:
 *
 *     scripts/with-node scripts/profile/way-out.ts [--requests 20000] [--connections 16] [--rounds 3]
 *         [--perf FILE]
 *
 * `--perf` writes a profile of the whole machine with Linux's perf.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { LEAN_PORT, leanClient, PASSED, startLeanServer } from '../../test/bench/lean-requests.ts'
import { processorTimeOf } from '../../test/bench/processor-time.ts'
import { allPids, poddPid, podhostOf, quietly } from '../../test/support/host-view.ts'
import { Internet, SITE } from '../../test/support/internet.ts'

const { values } = parseArgs({
  options: {
    requests: { type: 'string', default: '20000' },
    connections: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '3' },
    perf: { type: 'string' },
  },
})
const count = Number(values.requests)

await using internet = await Internet.open([PASSED])
internet.name(PASSED, [SITE])
await using world = internet.world()
const pod = world.client()
const sandbox = await pod.create({ network: { allow: [`${PASSED}:${LEAN_PORT}`] } })
const podhost = podhostOf(world)
const podd = await poddPid(podhost, sandbox.id)
const server = await startLeanServer(internet)
const args = leanClient(PASSED, LEAN_PORT, count, Number(values.connections))
// The egress process starts when it is needed.
await sandbox.exec('python3', { args }).wait()
const pids = new Map([
  ['podd', podd],
  ['egress', childOf(world.serverPid, 'egress.js')],
  ['server', server.pid ?? 0],
])
const perf =
  values.perf === undefined
    ? undefined
    : spawn('perf', ['record', '-q', '-a', '-g', '-F', '4000', '-o', values.perf], { stdio: 'inherit' })
for (let round = 0; round < Number(values.rounds); round++) {
  const before = new Map([...pids].map(([name, pid]) => [name, processorTimeOf(pid)]))
  const idle = idleMs()
  const { stdout, stderr } = await sandbox.exec('python3', { args }).wait()
  if (stdout === '') throw new Error(stderr)
  const seconds = Number(stdout)
  const perRequest = (ms: number): string => `${((ms * 1000) / count).toFixed(1)} us`
  const parts = [...pids].map(([name, pid]) => {
    const now = processorTimeOf(pid)
    return `${name} ${perRequest(now.ownMs - (before.get(name)?.ownMs ?? 0))}`
  })
  parts.push(`idle ${perRequest(idleMs() - idle)}`)
  console.log(`${(count / seconds).toFixed(0)} requests a second: ${parts.join(', ')}`)
}
if (perf?.kill('SIGINT')) await once(perf, 'exit')
server.kill()
await podhost.close()
await sandbox.destroy()

function childOf(parent: number, program: string): number {
  const found = allPids().find((pid) => {
    const read = (file: string): string => quietly(() => readFileSync(`/proc/${pid}/${file}`, 'utf8')) ?? ''
    return read('cmdline').includes(program) && read('status').includes(`\nPPid:\t${parent}\n`)
  })
  if (found === undefined) throw new Error(`no ${program} runs`)
  return found
}

/** The time in which a processor of this machine had nothing to do. */
function idleMs(): number {
  const fields = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').split(/\s+/).slice(1).map(Number)
  return ((fields[3] ?? 0) + (fields[4] ?? 0)) * 10
}
