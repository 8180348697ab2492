/**
 * A third-party provider in a real server: beside the default provider, and found again by the next server.
 */
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { AgentPod, isAgentPodError, type Sandbox } from 'agentpod'
import { type RunningServer, startServer } from 'agentpod/server'
import { namespaces } from '../../examples/provider/provider.ts'
import { LEVELS } from '../support/contract-table.ts'
import { ROOT, World } from '../support/world.ts'

const NAME = 'namespaces'
const dist = join(ROOT, 'dist')
const skip = process.getuid?.() === 0 ? false : 'the example provider needs root'
const world = new World()
const client = new AgentPod({ socket: join(world.home, 'run', 'api.sock') })
let server: RunningServer

function start(): Promise<RunningServer> {
  return startServer({
    home: world.home,
    version: 'test',
    programs: {
      podhost: join(dist, 'bin', 'podhost'),
      podd: join(dist, 'bin', 'podd'),
      podimage: join(dist, 'bin', 'podimage'),
      egress: join(dist, 'egress.js'),
    },
    idleExitMs: 0,
    shells: 0,
    providers: [({ home, podd }) => namespaces({ directory: join(home, NAME), podd })],
    writeLog: () => undefined,
  })
}

before(async () => {
  server = await start()
})
after(async () => {
  for (const { id } of await client.list()) await (await client.get(id)).destroy()
  await server.stop()
  await world[Symbol.asyncDispose]()
})

async function say(sandbox: Sandbox, script: string): Promise<string> {
  const { stdout } = await sandbox.exec('sh', { args: ['-c', script] }).wait()
  return stdout.trim()
}

const reasonOf = (error: unknown): string => (isAgentPodError(error) ? error.reason : String(error))

test('a foreign provider is listed beside the default one', async () => {
  const found = await client.providers()
  assert.deepEqual(
    // Those of gVisor, QEMU and Docker are there, too, with their programs or without.
    found
      .filter(({ name }) => !['gvisor', 'qemu', 'docker'].includes(name))
      .map(({ name, isDefault, isolation }) => ({ name, isDefault, isolation })),
    [
      { name: 'crun', isDefault: true, isolation: 'container' },
      { name: NAME, isDefault: false, isolation: skip ? undefined : 'container' },
    ],
  )
})

test('docs/reference/providers.md has the capabilities of both providers', { skip }, async () => {
  const both = (await client.providers()).filter(({ name }) => name === NAME || name === 'crun')
  assert.equal(both.length, 2)
  for (const { name, capabilities } of both) {
    assert.ok(capabilities)
    const { notes, ...levels } = capabilities
    // A note of crun names what this machine lacks, and the page is about a machine that lacks nothing.
    if (name === NAME) assert.deepEqual(levels, LEVELS.example)
    else if (notes.length === 0) assert.deepEqual(levels, LEVELS.crun)
  }
})

test('sandboxes of two providers run commands side by side', { skip }, async () => {
  const [foreign, own] = await Promise.all([client.create({ provider: NAME }), client.create()])
  assert.deepEqual([foreign.info.provider, own.info.provider], [NAME, 'crun'])
  await Promise.all([foreign, own].map((one) => one.writeFile('who', Buffer.from(one.id))))
  assert.deepEqual(await Promise.all([foreign, own].map((one) => say(one, 'cat who'))), [foreign.id, own.id])
  await foreign.destroy()
  assert.equal(await say(own, 'echo here'), 'here')
  assert.deepEqual(readdirSync(join(world.home, NAME)), [])
})

test('connections of a foreign provider pass the egress process: a rule decides, and without one nothing leaves', {
  skip,
}, async () => {
  const sandbox = await client.create({ provider: NAME, network: { allow: ['allowed.example'] } })
  const refusal = (host: string): Promise<string> =>
    say(sandbox, `curl -s -m 20 -o /dev/null -D - http://${host}/ | grep -i ^x-agentpod-refused`)
  assert.match(await refusal('denied.example'), /: rule\.none$/)
  // The control: the rule lets it pass, and then there is no such name.
  assert.match(await refusal('allowed.example'), /: dns\.\w+$/)
  await sandbox.destroy()
})

test('a foreign provider’s missing capability is refused before anything is created, and names a provider that has it', {
  skip,
}, async () => {
  const sandbox = await client.create({ provider: NAME })
  await assert.rejects(sandbox.pause(), (error) => {
    assert.equal(reasonOf(error), 'pause.unsupported')
    assert.match(isAgentPodError(error) ? (error.hint ?? '') : '', /crun/)
    return true
  })
  const limited = client.create({ provider: NAME, resources: { memoryMib: 256 } })
  await assert.rejects(limited, (error) => reasonOf(error) === 'limits.unenforced')
  assert.equal(await say(sandbox, 'echo alive'), 'alive')
})

test('the next server finds the sandbox of a foreign provider with its processes and files', {
  skip,
}, async () => {
  const { id } = await client.create({ provider: NAME })
  const before = await say(await client.get(id), 'echo kept > note; sleep 600 >/dev/null & echo $!')
  await server.stop()
  server = await start()
  const again = await client.get(id)
  assert.equal(await say(again, `cat note; cat /proc/${before}/comm`), 'kept\nsleep')
  await again.destroy()
})
