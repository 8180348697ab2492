/** Pause, stop, snapshots and forks on real sandboxes, over the SDK and the command line. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { isAgentPodError, type Sandbox } from '../../src/exports/client.ts'
import { until, World } from '../support/world.ts'

const world = new World()
const pod = world.client()
let hasFreezer = false
before(async () => {
  hasFreezer = (await pod.server()).capabilities.pause !== 'none'
})
after(async () => {
  pod.close()
  await world[Symbol.asyncDispose]()
})

const NO_FREEZER = 'there is no freezer here'
const shell = async (sandbox: Sandbox, script: string): Promise<string> =>
  (await sandbox.exec('sh', { args: ['-c', script] }).wait()).stdout.trimEnd()
const stateOf = async (sandbox: Sandbox): Promise<string> => (await pod.get(sandbox.id)).info.state

test('STATE-1 a pause keeps processes and open streams, which are silent meanwhile', async (t) => {
  if (!hasFreezer) return t.skip(NO_FREEZER)
  await using sandbox = await pod.create()
  const child = sandbox.exec('sh', { args: ['-c', 'while :; do echo tick; sleep 0.05; done'] })
  let heard = 0
  const reading = (async () => {
    for await (const _ of child.output()) heard++
  })().catch(() => undefined)
  await until('it is heard', () => heard > 3)
  await sandbox.pause()
  await new Promise((resolve) => setTimeout(resolve, 300))
  const before = heard
  await new Promise((resolve) => setTimeout(resolve, 500))
  assert.equal(heard, before)
  await sandbox.resume()
  await until('it is heard again', () => heard > before + 3)
  await child.signal('SIGKILL')
  await reading
})

test('a stop ends processes, closes streams and keeps files, and a command starts the sandbox again', async () => {
  await using sandbox = await pod.create()
  await shell(sandbox, 'echo kept > ~/file')
  const child = sandbox.exec('sh', { args: ['-c', 'echo up; sleep 300'] })
  const output = child.output()
  await output.next()
  const cut = output.next().then(
    () => assert.fail('it went on'),
    (error: unknown) => error,
  )
  await sandbox.stop()
  const error = await cut
  assert.ok(isAgentPodError(error, 'conflict') && error.reason === 'sandbox.state', String(error))
  assert.equal(await stateOf(sandbox), 'stopped', 'the lost stream did not start it')
  assert.equal(await shell(sandbox, 'cat ~/file; pgrep -c sleep'), 'kept\n0')
})

test('STATE-1 paused and stopped sandboxes stay so across a server restart, and the new server resumes them', async (t) => {
  if (!hasFreezer) return t.skip(NO_FREEZER)
  await using frozen = await pod.create()
  await using stopped = await pod.create()
  await shell(frozen, 'sleep 300 > /dev/null 2>&1 & echo $! > ~/pid')
  await shell(stopped, 'echo kept > ~/file')
  await frozen.pause()
  await stopped.stop()
  process.kill(world.serverPid, 'SIGKILL')
  assert.deepEqual([await stateOf(frozen), await stateOf(stopped)], ['paused', 'stopped'])
  assert.equal(await shell(frozen, 'kill -0 $(cat ~/pid) && echo alive'), 'alive')
  assert.equal(await shell(stopped, 'cat ~/file'), 'kept')
})

test('STATE-1 traffic to a port resumes the sandbox that listens there', async (t) => {
  if (!hasFreezer) return t.skip(NO_FREEZER)
  await using sandbox = await pod.create({ ports: { public: true } })
  const serve = 'mkdir -p ~/www && cd ~/www && echo hello > page && python3 -m http.server 8000'
  await shell(sandbox, `(${serve}) > /dev/null 2>&1 & true`)
  const { url } = await pod.preview(sandbox.id, 8000)
  const fetchPage = async (): Promise<string> =>
    (await promisify(execFile)('curl', ['-s', '--max-time', '10', `${url}page`])).stdout
  await until('the page is served', async () => (await fetchPage()) === 'hello\n')
  await sandbox.pause()
  assert.equal(await fetchPage(), 'hello\n')
  assert.equal(await stateOf(sandbox), 'running')
})

test('a sandbox is paused or stopped at the end of its time, as requested', async (t) => {
  if (!hasFreezer) return t.skip(NO_FREEZER)
  await using frozen = await pod.create({ lifetime: { ttlMs: 1500, whenOver: 'pause' } })
  await using stopped = await pod.create({ lifetime: { ttlMs: 1500, whenOver: 'stop' } })
  await until('both are over', async () => (await stateOf(frozen)) === 'paused', 15_000)
  await until('both are over', async () => (await stateOf(stopped)) === 'stopped', 15_000)
  for (const sandbox of [frozen, stopped]) assert.equal(await shell(sandbox, 'echo awake'), 'awake')
})

test('a snapshot, its copies and forks have the files of one moment', async () => {
  await using sandbox = await pod.create({ name: 'source' })
  await shell(sandbox, 'echo one > ~/file; head -c 3000000 /dev/urandom > ~/noise; chmod 600 ~/noise')
  const sum = await shell(sandbox, 'sha256sum < ~/noise; stat -c %a ~/noise')
  if (!hasFreezer) await sandbox.stop()
  const snapshot = await sandbox.snapshot({ name: 'golden' })
  await shell(sandbox, 'echo two > ~/file')
  await using copy = await pod.create({ snapshot: 'golden' })
  assert.equal(await shell(copy, 'cat ~/file; sha256sum < ~/noise; stat -c %a ~/noise'), `one\n${sum}`)
  if (!hasFreezer) await copy.stop()
  const forks = await copy.fork({ count: 3, name: 'try' })
  for (const fork of forks) {
    assert.equal(await shell(fork, 'cat ~/file; echo own > ~/file; hostname'), `one\n${fork.info.name}`)
    await fork.destroy()
  }
  assert.equal(await shell(copy, 'cat ~/file'), 'one')
  assert.equal(copy.info.snapshotId, snapshot.id)
  await pod.snapshots.remove('golden')
  assert.equal(await shell(copy, 'sha256sum < ~/noise; stat -c %a ~/noise'), sum)
})

test('a snapshot is exported and imported as a file on the command line', async () => {
  const directory = world.directory()
  await world.ok(['create', '--name', 'traveller'])
  await world.ok(['exec', 'traveller', '--', 'sh', '-c', 'echo far > ~/file'])
  await world.ok(['stop', 'traveller'])
  await world.ok(['snapshot', 'traveller', '--name', 'trip'])
  await world.ok(['snapshot', 'export', 'trip', 'trip.pod'], { cwd: directory })
  assert.equal(statSync(join(directory, 'trip.pod')).mode & 0o777, 0o600)
  await world.ok(['snapshot', 'rm', 'trip'])
  await world.ok(['snapshot', 'import', 'trip.pod', '--name', 'back'], { cwd: directory })
  await world.ok(['restore', 'back', '--name', 'arrived'])
  assert.equal(await world.ok(['exec', 'arrived', '--', 'sh', '-c', 'cat ~/file']), 'far\n')
  assert.match(await world.ok(['ls']), /traveller +stopped/)
  await world.ok(['destroy', 'traveller', 'arrived'])
  await world.ok(['snapshot', 'rm', 'back'])
})
