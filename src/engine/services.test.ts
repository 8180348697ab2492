/** Services of a sandbox on a fake guest: in order, ready, told of when they are not, ended cleanly. */
import assert from 'node:assert/strict'
import { tmpdir } from 'node:os'
import type { DatabaseSync } from 'node:sqlite'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, test } from 'node:test'
import type { Service } from '../core/environment.ts'
import { type AgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'
import { parseOwner, type SandboxId } from '../core/id.ts'
import { openDatabase } from '../store/database.ts'
import { EVENT_MIGRATIONS, eventStore } from '../store/events.ts'
import { STATE_MIGRATIONS, sandboxStore } from '../store/sandboxes.ts'
import { snapshotStore } from '../store/snapshots.ts'
import { silentLog } from '../telemetry/log.ts'
import { FakeClock } from '../testing/fake-clock.ts'
import { FakeProvider } from '../testing/fake-provider.ts'
import { SeededRandom } from '../testing/seeded-random.ts'
import type { NewSandbox } from './engine.ts'
import { Engine } from './engine.ts'

let databases: DatabaseSync[]
let clock: FakeClock
let provider: FakeProvider
let engine: Engine

beforeEach(async () => {
  const state = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
  const events = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
  databases = [state, events]
  clock = new FakeClock()
  provider = new FakeProvider({ clock })
  engine = new Engine({
    sandboxes: sandboxStore(state),
    snapshots: snapshotStore(state),
    tmpDir: tmpdir(),
    events: eventStore(events),
    providers: [provider],
    roots: { ensure: async () => ({ root: { kind: 'host' } }) },
    owner: parseOwner('services-test'),
    clock,
    random: new SeededRandom(5),
    log: silentLog,
  })
  await engine.open()
})
afterEach(() => {
  engine.close()
  for (const database of databases) database.close()
})

function service(name: string, o: Partial<Service> = {}): Service {
  return {
    name,
    run: 'sleep 100000',
    user: 'user',
    workdir: '',
    variables: {},
    ready: { timeoutMs: 5000 },
    needsProject: false,
    stopSignal: 'SIGTERM',
    stopMs: 1000,
    ...o,
  }
}

/** Time goes on for whoever waits. */
async function passing<T>(work: Promise<T>): Promise<T> {
  let isOver = false
  const done = work.finally(() => {
    isOver = true
  })
  done.catch(() => undefined)
  while (!isOver) await clock.advance(20)
  return done
}

async function create(environment: NewSandbox['environment']): Promise<SandboxId> {
  return (await passing(engine.create({ environment }))).id
}

async function fails(work: Promise<unknown>, code: ErrorCode, reason: string): Promise<AgentPodError> {
  try {
    await passing(work)
  } catch (error) {
    assert.ok(isAgentPodError(error, code), String(error))
    assert.equal(error.reason, reason)
    return error
  }
  assert.fail('it did not fail')
}

/** Tags of what was started, in order; `!` marks what has ended. */
function started(id: SandboxId): string[] {
  return provider
    .inside(id)
    .processes.flatMap(({ tag, exitCode }) =>
      tag?.startsWith('agentpod.service.') ? [`${tag.slice(17)}${exitCode === undefined ? '' : '!'}`] : [],
    )
}

const ready = (id: SandboxId): unknown[] =>
  engine.events(id, 0).flatMap(({ type, data }) => (type === 'service.ready' ? [data['service']] : []))

describe('services', () => {
  test('are started in order, each ready before the next, and before anybody’s command', async () => {
    const id = await create({
      services: [
        service('db', { ready: { command: 'true', timeoutMs: 5000 } }),
        service('cache'),
        service('web'),
      ],
    })
    assert.deepEqual(started(id), ['db', 'cache', 'web'])
    assert.deepEqual(ready(id), ['db', 'cache', 'web'])
    assert.equal(engine.get(id).state, 'running')
    const types = engine.events(id, 0).map(({ type }) => type)
    assert.ok(types.indexOf('sandbox.running') > types.lastIndexOf('service.ready'))
  })

  test('run as they say', async () => {
    const id = await create({
      services: [service('db', { user: 'postgres', workdir: '/srv', variables: { A: 'b' } })],
      variables: { C: 'd' },
    })
    const [process] = provider.inside(id).processes
    assert.deepEqual(
      [process?.line.user, process?.line.cwd, process?.line.env['A'], process?.line.env['C']],
      ['postgres', '/srv', 'b', 'd'],
    )
    assert.deepEqual(process?.line.args, ['-c', 'sleep 100000'])
  })

  test('are ready when a command succeeds', async () => {
    const making = engine.create({
      environment: { services: [service('db', { ready: { command: 'cat /ready', timeoutMs: 60_000 } })] },
    })
    await clock.advance(3000)
    const [id] = provider.existing
    assert.ok(id)
    assert.equal(engine.get(id).state, 'creating')
    assert.deepEqual(ready(id), [])
    provider.inside(id).files.set('/ready', Buffer.from('x'))
    await passing(making)
    assert.equal(engine.get(id).state, 'running')
  })

  test('are ready when a port takes connections', async () => {
    const making = engine.create({
      environment: { services: [service('db', { ready: { port: 5432, timeoutMs: 60_000 } })] },
    })
    await clock.advance(3000)
    const [id] = provider.existing
    assert.ok(id)
    assert.equal(engine.get(id).state, 'creating')
    provider.inside(id).echoPorts.add(5432)
    await passing(making)
  })

  test('that need the project wait to be asked for, and so does the command of every start', async () => {
    const id = await create({
      services: [service('db'), service('web', { needsProject: true })],
      start: 'write /started yes',
    })
    assert.deepEqual(started(id), ['db'])
    assert.ok(!provider.inside(id).files.has('/started'))
    await passing(engine.begin(id))
    assert.deepEqual(started(id), ['db', 'web'], 'what runs is not started twice')
    assert.equal(provider.inside(id).files.get('/started')?.toString(), 'yes')
    await passing(engine.begin(id))
    assert.deepEqual(started(id), ['db', 'web'])
  })

  test('of a snapshot’s sandbox have their project', async () => {
    const id = await create({ services: [service('web', { needsProject: true })] })
    await engine.snapshot(id, { name: 'shot' })
    const copy = await passing(engine.create({ snapshot: 'shot' }))
    assert.deepEqual(started(copy.id), ['web'])
  })
})

test('SECURITY: LK-14. services and their variables do not go with an archive, which can be taken all the same', async () => {
  const id = await create({
    services: [service('web', { variables: { KEY: 'hunter2' } })],
    start: 'true',
    path: ['/opt/x'],
  })
  await engine.snapshot(id, { name: 'shot' })
  const archive = Buffer.concat(await (await engine.exportSnapshot('shot')).toArray())
  assert.ok(!archive.includes('hunter2'))
  const { spec } = await engine.importSnapshot(Readable.from([archive]), { owner: 'local', name: 'copy' })
  assert.equal(spec.environment.services, undefined)
})

describe('a service that does not start', () => {
  test('because it ended: its last words are told, and nothing is left', async () => {
    const failing = service('db', {
      run: 'echo first; echo could not bind; exit 3',
      ready: { command: 'false', timeoutMs: 60_000 },
    })
    const error = await fails(
      engine.create({ environment: { services: [failing] } }),
      'failed_precondition',
      'service.failed',
    )
    assert.equal(error.message, 'the service db did not start: it ended with code 3:\nfirst\ncould not bind')
    assert.match(error.hint ?? '', /db = false/)
    assert.deepEqual(provider.existing, [])
    assert.ok(clock.now() < Date.UTC(2030, 0, 1) + 5000, 'nobody waited for it')
  })

  test('because it is not ready in time', async () => {
    const slow = service('db', {
      run: 'echo starting; sleep 100000',
      ready: { command: 'false', timeoutMs: 3000 },
    })
    const error = await fails(
      engine.create({ environment: { services: [slow] } }),
      'failed_precondition',
      'service.failed',
    )
    assert.equal(error.message, 'the service db did not start: it was not ready after 3 s:\nstarting')
    assert.deepEqual(provider.existing, [])
  })

  test('keeps those after it from being started', async () => {
    const bad = service('b', { run: 'exit 1', ready: { command: 'false', timeoutMs: 9000 } })
    await fails(
      engine.create({ environment: { services: [service('a'), bad, service('c')] } }),
      'failed_precondition',
      'service.failed',
    )
    const [record] = engine.list({ labels: {}, all: true })
    assert.ok(record)
    assert.deepEqual(ready(record.id), ['a'], 'the last one would have been ready at once')
  })

  test('SECURITY: does nothing to a terminal, and says only so much', async () => {
    const loud = service('db', {
      run: `echo '\u001b[2J\u0007\u202e${'x'.repeat(20_000)}end'; exit 1`,
      ready: { command: 'false', timeoutMs: 60_000 },
    })
    const { message } = await fails(
      engine.create({ environment: { services: [loud] } }),
      'failed_precondition',
      'service.failed',
    )
    assert.doesNotMatch(message.replaceAll('\n', ''), /\p{C}/u)
    assert.ok(message.length < 5000)
    assert.match(message, /xend$/)
  })

  test('can be corrected and started again', async () => {
    const id = await create({
      services: [
        service('web', {
          needsProject: true,
          run: 'cat /config; sleep 100000',
          ready: { command: 'cat /config', timeoutMs: 1000 },
        }),
      ],
    })
    const error = await fails(engine.begin(id), 'failed_precondition', 'service.failed')
    assert.match(error.message, /No such file/)
    assert.equal(engine.get(id).state, 'running')
    for (const process of provider.inside(id).processes) process.kill()
    provider.inside(id).files.set('/config', Buffer.from('x'))
    await passing(engine.begin(id))
    assert.deepEqual(started(id), ['web!', 'web#2'])
    for (const process of provider.inside(id).processes) process.kill()
    await passing(engine.begin(id))
    assert.deepEqual(started(id), ['web!', 'web#2!', 'web#3'])
  })

  test('because the sandbox ended: nobody waits for the rest of its time', async () => {
    const making = engine.create({
      environment: { services: [service('db', { ready: { command: 'false', timeoutMs: 1_000_000 } })] },
    })
    const failed = fails(making, 'unavailable', 'stream.cut')
    await clock.advance(100)
    for (const id of provider.existing) provider.lose(id)
    await failed
    assert.deepEqual(provider.existing, [])
  })
})

describe('the command of every start', () => {
  test('that fails is told with its last words', async () => {
    const id = await create({ start: 'echo no database; exit 2' })
    const error = await fails(engine.begin(id), 'failed_precondition', 'start.failed')
    assert.equal(error.message, 'the command of every start failed with code 2:\nno database')
  })

  test('runs again at every start, after the services', async () => {
    const id = await create({ services: [service('db')], start: 'write /order started' })
    await passing(engine.stop(id))
    provider.inside(id).files.delete('/order')
    await passing(engine.start(id))
    assert.equal(provider.inside(id).files.get('/order')?.toString(), 'started')
  })

  test('that fails at a start leaves the sandbox stopped, with its files', async () => {
    const id = await create({ start: 'cat /config' })
    provider.inside(id).files.set('/data', Buffer.from('x'))
    await passing(engine.stop(id))
    await fails(engine.start(id), 'failed_precondition', 'start.failed')
    assert.equal(engine.get(id).state, 'stopped')
    assert.ok(provider.inside(id).files.has('/data'))
  })

  test('of a sandbox that does not run is refused', async () => {
    const id = await create({ start: 'true' })
    await passing(engine.stop(id))
    await fails(engine.begin(id), 'conflict', 'sandbox.state')
  })
})

describe('a stop', () => {
  test('asks services to end, last first, each with its signal, before anything else ends', async () => {
    const id = await create({
      services: [
        service('db', { stopSignal: 'SIGINT' }),
        service('cache'),
        service('web', { stopSignal: 'SIGQUIT' }),
      ],
    })
    const { signals } = provider.inside(id)
    await passing(engine.stop(id))
    assert.deepEqual(signals, [
      'SIGQUIT agentpod.service.web',
      'SIGTERM agentpod.service.cache',
      'SIGINT agentpod.service.db',
    ])
    assert.equal(engine.get(id).state, 'stopped')
  })

  test('starts them again, in order, with all that waited for the project', async () => {
    const id = await create({ services: [service('db'), service('web', { needsProject: true })] })
    await passing(engine.stop(id))
    await passing(engine.start(id))
    assert.deepEqual(started(id), ['db', 'web'])
    assert.equal(engine.get(id).state, 'running')
  })

  test('of one that was started again ends the one that runs', async () => {
    const id = await create({ services: [service('web')] })
    for (const process of provider.inside(id).processes) process.kill()
    await passing(engine.begin(id))
    const { signals } = provider.inside(id)
    await passing(engine.stop(id))
    assert.deepEqual(signals, ['SIGTERM agentpod.service.web#2'])
  })

  test('SECURITY: is not held up by services that do not end', async () => {
    const many = Array.from({ length: 32 }, (_, n) => service(`s${n}`, { stopMs: 1_000_000 }))
    const id = await create({ services: many })
    const inside = provider.inside(id)
    // They take the signal and go on.
    for (const process of inside.processes) process.kill = () => undefined
    const before = clock.now()
    const stopping = engine.stop(id)
    let isOver = false
    stopping.finally(() => {
      isOver = true
    })
    while (!isOver && clock.now() - before < 120_000) await clock.advance(500)
    assert.ok(isOver && clock.now() - before <= 32_000, `it took ${clock.now() - before} ms`)
    await stopping
  })
})
