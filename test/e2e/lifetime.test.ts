import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { SandboxView } from '../../src/api/schema/sandbox.ts'
import { isAlive, until, World } from '../support/world.ts'

const world = new World({ env: { AGENTPOD_IDLE_EXIT_MS: '3000' } })
after(() => world[Symbol.asyncDispose]())

const list = async (...args: string[]): Promise<SandboxView[]> =>
  JSON.parse(await world.ok(['ls', '--json', ...args]))

test('BOX-3 a sandbox ends within five seconds of its time to live, and its record says why', async () => {
  const id = (await world.ok(['create', '--timeout', '2s'])).trim()
  const started = performance.now()
  await until('it is gone', async () => (await list()).length === 0, 7000)
  assert.ok(performance.now() - started > 1000, 'not before its time')
  const ended = (await list('--all')).find((sandbox) => sandbox.id === id)
  assert.equal(ended?.state, 'destroyed')
  assert.equal(ended?.ending?.reason, 'sandbox.expired')
})

test('extend moves the deadline of a sandbox', async () => {
  await world.ok(['create', '--name', 'longer', '--timeout', '2s'])
  await world.ok(['extend', 'longer', '1m'])
  await new Promise((resolve) => setTimeout(resolve, 4500))
  assert.equal(await world.ok(['exec', 'longer', 'echo', 'still here']), 'still here\n')
  await world.ok(['destroy', 'longer'])
})

test('BOX-3 an idle sandbox ends, and a used one does not', async () => {
  await world.ok(['create', '--name', 'idle', '--idle', '2s'])
  await world.ok(['create', '--name', 'used', '--idle', '2s'])
  const busy = world.cli(['exec', 'used', '--', 'sh', '-c', 'sleep 5; echo done'])
  await until('the idle one is gone', async () => (await list()).every(({ name }) => name !== 'idle'), 7000)
  assert.equal((await busy).stdout, 'done\n')
  await until('the used one is gone', async () => (await list()).length === 0, 8000)
})

test('BOX-3 a sandbox ends at its time to live while no server is running', async () => {
  const sandbox = await world.client().create({ lifetime: { ttlMs: 3000 } })
  const sleeper = sandbox.exec('sleep', { args: ['1000.25'] })
  const reading = sleeper.wait().catch(() => undefined)
  await sleeper.pid
  process.kill(world.serverPid, 'SIGKILL')
  const { execFileSync } = await import('node:child_process')
  const isRunning = (): boolean => execFileSync('ps', ['-eo', 'args']).toString().includes('sleep 1000.25')
  assert.ok(isRunning(), 'the control: it runs without a server')
  await until('its processes are gone', () => !isRunning(), 8000)
  await reading
  assert.deepEqual(await list(), [])
})

test('the server exits when no sandbox is running and no client is connected', async () => {
  await list()
  const pid = world.serverPid
  await new Promise((resolve) => setTimeout(resolve, 1000))
  assert.ok(isAlive(pid))
  await until('it is gone', () => !isAlive(pid), 15_000)
  assert.deepEqual(await list(), [], 'and the next call starts another')
})

test('BOX-8 a second server on one state directory refuses and names the first', async () => {
  await list()
  const { code, stderr } = await world.cli(['serve'])
  assert.equal(code, 5)
  assert.match(stderr, new RegExp(`pid ${world.serverPid}`))
})
