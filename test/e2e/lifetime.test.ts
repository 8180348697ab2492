import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { SandboxView } from '../../src/api/schema/sandbox.ts'
import { isAlive, until, World } from '../support/world.ts'

const world = new World({ env: { AGENTPOD_IDLE_EXIT_MS: '3000' } })
after(() => world[Symbol.asyncDispose]())

const list = async (...args: string[]): Promise<SandboxView[]> =>
  JSON.parse(await world.ok(['ls', '--json', ...args]))

test('BOX-3 a sandbox ends within five seconds of its time to live, and its record says why', async () => {
  const id = (await world.ok(['create', '--timeout', '2s', '--when-over', 'destroy'])).trim()
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
  await world.ok(['create', '--name', 'idle', '--idle', '2s', '--when-over', 'destroy'])
  await world.ok(['create', '--name', 'used', '--idle', '2s', '--when-over', 'destroy'])
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

test('LIFE-2 a sandbox that a person made is paused when idle and stopped at its end, and loses nothing', async () => {
  await world.ok(['create', '--name', 'day'])
  const [{ lifetime }] = (await list()) as [SandboxView]
  assert.deepEqual(lifetime, {
    ttlMs: 24 * 3_600_000,
    idleMs: 30 * 60_000,
    whenOver: 'stop',
    whenIdle: 'pause',
    autoResume: true,
  })
  assert.match(await world.ok(['ls']), /paused after 30m idle, stopped in 24h/)
  await world.ok(['destroy', 'day'])
  // One-shot runs and the sandboxes of programs keep their own rules.
  const sandbox = await world.client().create()
  assert.deepEqual(sandbox.info.lifetime, {
    ttlMs: 3_600_000,
    idleMs: 0,
    whenOver: 'destroy',
    autoResume: true,
  })
  assert.match(await world.ok(['ls']), /destroyed in 1h/)
  await sandbox.destroy()

  await world.ok(['create', '--name', 'idle', '--idle', '2s'])
  const stateOf = async (name: string): Promise<string | undefined> =>
    (await list()).find((one) => one.name === name)?.state
  await world.ok([
    'exec',
    'idle',
    '--',
    'sh',
    '-c',
    'sleep 1000 & echo $! > ~/pid; head -c 3000000 /dev/zero > ~/data',
  ])
  const canPause = (await world.cli(['pause', 'idle'])).code === 0
  if (canPause) {
    await world.ok(['resume', 'idle'])
    await until('it is paused', async () => (await stateOf('idle')) === 'paused', 12_000)
    assert.match(await world.ok(['ls']), /paused +.* \d+(\.\d)? [KM]iB +kept; a call resumes it/)
  }
  const alive = 'kill -0 "$(cat ~/pid)" && wc -c < ~/data'
  assert.equal(await world.ok(['exec', 'idle', '--', 'sh', '-c', alive]), '3000000\n')
  await world.ok(['destroy', 'idle'])

  await world.ok(['create', '--name', 'over', '--timeout', '3s'])
  await world.ok([
    'exec',
    'over',
    '--',
    'sh',
    '-c',
    'echo here > ~/file; head -c 3000000 /dev/urandom > ~/data',
  ])
  await until('it is stopped', async () => (await stateOf('over')) === 'stopped', 10_000)
  assert.match(
    await world.ok(['ls']),
    /stopped \(its time to live is over\).* [23]\.\d MiB +kept; a call starts it/,
  )
  assert.equal(await world.ok(['exec', 'over', '--', 'sh', '-c', 'cat ~/file']), 'here\n')
  await world.ok(['destroy', 'over'])
})

test('LIFE-3 the number of stopped sandboxes has a limit that config.toml sets, and nothing is lost to it', async () => {
  const file = join(world.home, 'config.toml')
  writeFileSync(file, '[sandboxes]\nkept = 1\n')
  await world.ok(['create', '--name', 'one'])
  await world.ok(['create', '--name', 'two'])
  await world.ok(['stop', 'one', 'two'])
  const refused = await world.cli(['create', '--name', 'three'])
  assert.notEqual(refused.code, 0)
  assert.match(refused.stderr, /2 stopped sandboxes are kept, and the limit is 1/)
  const listed = await world.cli(['ls'])
  assert.match(
    listed.stderr,
    /^2 stopped sandboxes are kept, of at most 1 \(`\[sandboxes\] kept` in config\.toml\)/m,
  )
  assert.match(refused.stderr, /agentpod destroy NAME.*\[sandboxes\] kept = N.* in config\.toml/)
  // A sandbox that is destroyed at its end is never kept.
  await world.ok(['run', '--no-project', '--', 'true'])
  await world.ok(['create', '--name', 'short', '--when-over', 'destroy'])
  assert.equal(await world.ok(['exec', 'one', 'hostname']), 'one\n')
  rmSync(file)
  await world.ok(['create', '--name', 'three'])
  await world.ok(['destroy', 'one', 'two', 'three', 'short'])
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
