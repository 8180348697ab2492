/** Services of a sandbox on a fake guest: in order, ready, told of when they are not, ended cleanly. */

import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { afterEach, beforeEach, describe, test } from 'node:test'
import type { Service } from '../../core/environment.ts'
import { type AgentPodError, type ErrorCode, isAgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import { LOCAL } from '../../core/principal.ts'
import type { FakeClock } from '../../testing/fake-clock.ts'
import type { FakeProvider } from '../../testing/fake-provider.ts'
import type { Engine } from '../engine.ts'
import { EngineFixture } from '../testing/engine-fixture.ts'
import type { NewSandbox } from './sandbox-operations.ts'

let fixture: EngineFixture
let clock: FakeClock
let provider: FakeProvider
let engine: Engine

beforeEach(async () => {
  fixture = new EngineFixture()
  engine = await fixture.open()
  clock = fixture.clock
  provider = fixture.provider
})
afterEach(() => fixture[Symbol.dispose]())

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
  return (await passing(engine.sandboxes.create({ environment }, LOCAL))).id
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
  engine.events
    .list(id, 0, LOCAL)
    .flatMap(({ type, data }) => (type === 'service.ready' ? [data['service']] : []))

describe('services', () => {
  test('ENV-9 services are started in order, each ready before the next, and before any command', async () => {
    const id = await create({
      services: [
        service('db', { ready: { command: 'true', timeoutMs: 5000 } }),
        service('cache'),
        service('web'),
      ],
    })
    assert.deepEqual(started(id), ['db', 'cache', 'web'])
    assert.deepEqual(ready(id), ['db', 'cache', 'web'])
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
    const types = engine.events.list(id, 0, LOCAL).map(({ type }) => type)
    assert.ok(types.indexOf('sandbox.running') > types.lastIndexOf('service.ready'))
  })

  test('services run with their own user, directory and variables', async () => {
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

  test('a service is ready when its check command succeeds', async () => {
    const making = engine.sandboxes.create(
      {
        environment: { services: [service('db', { ready: { command: 'cat /ready', timeoutMs: 60_000 } })] },
      },
      LOCAL,
    )
    await clock.advance(3000)
    const [id] = provider.existing
    assert.ok(id)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'creating')
    assert.deepEqual(ready(id), [])
    provider.inside(id).files.set('/ready', Buffer.from('x'))
    await passing(making)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
  })

  test('a service is ready when its port accepts connections', async () => {
    const making = engine.sandboxes.create(
      {
        environment: { services: [service('db', { ready: { port: 5432, timeoutMs: 60_000 } })] },
      },
      LOCAL,
    )
    await clock.advance(3000)
    const [id] = provider.existing
    assert.ok(id)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'creating')
    provider.inside(id).echoPorts.add(5432)
    await passing(making)
  })

  test('services that need the project, and the start command, wait for startProjectServices', async () => {
    const id = await create({
      services: [service('db'), service('web', { needsProject: true })],
      start: 'write /started yes',
    })
    assert.deepEqual(started(id), ['db'])
    assert.ok(!provider.inside(id).files.has('/started'))
    await passing(engine.guests.startProjectServices(id, LOCAL))
    assert.deepEqual(started(id), ['db', 'web'], 'what runs is not started twice')
    assert.equal(provider.inside(id).files.get('/started')?.toString(), 'yes')
    await passing(engine.guests.startProjectServices(id, LOCAL))
    assert.deepEqual(started(id), ['db', 'web'])
  })

  test('services of a restored sandbox start with it, because the project is there', async () => {
    const id = await create({ services: [service('web', { needsProject: true })] })
    await engine.snapshots.create(id, { name: 'shot' }, LOCAL)
    const copy = await passing(engine.sandboxes.create({ snapshot: 'shot' }, LOCAL))
    assert.deepEqual(started(copy.id), ['web'])
  })
})

test('LK-14 a snapshot archive leaves out services and their variables, and can be imported', async () => {
  const id = await create({
    services: [service('web', { variables: { KEY: 'hunter2' } })],
    start: 'true',
    path: ['/opt/x'],
  })
  await engine.snapshots.create(id, { name: 'shot' }, LOCAL)
  const archive = Buffer.concat(await (await engine.snapshots.export('shot', LOCAL)).toArray())
  assert.ok(!archive.includes('hunter2'))
  const { spec } = await engine.snapshots.import(Readable.from([archive]), { name: 'copy' }, LOCAL)
  assert.equal(spec.environment.services, undefined)
})

describe('a service that does not start', () => {
  test('a service that ends early fails the create with the end of its output, and nothing is left', async () => {
    const failing = service('db', {
      run: 'echo first; echo could not bind; exit 3',
      ready: { command: 'false', timeoutMs: 60_000 },
    })
    const error = await fails(
      engine.sandboxes.create({ environment: { services: [failing] } }, LOCAL),
      'failed_precondition',
      'service.failed',
    )
    assert.equal(error.message, 'service db did not start: it ended with code 3:\nfirst\ncould not bind')
    assert.match(error.hint ?? '', /db = false/)
    assert.deepEqual(provider.existing, [])
    assert.ok(clock.now() < Date.UTC(2030, 0, 1) + 5000, 'nobody waited for it')
  })

  test('DOCKER-6 an engine that is not installed, or does not start, is no service of the project’s file', async () => {
    const engine127 = service('docker-engine', {
      run: 'echo not installed in this environment: dockerd; exit 127',
      ready: { command: 'false', timeoutMs: 60_000 },
    })
    const hintOf = async (one: Service): Promise<string> =>
      (
        await fails(
          engine.sandboxes.create({ environment: { services: [one] } }, LOCAL),
          'failed_precondition',
          'service.failed',
        )
      ).hint ?? ''
    assert.match(await hintOf(engine127), /^install the packages docker\.io and iptables/)
    assert.match(await hintOf({ ...engine127, run: 'exit 1' }), /^this is the output of dockerd/)
    // The control: other services are the project's.
    assert.match(await hintOf({ ...engine127, name: 'db' }), /\[services\] of agentpod\.toml/)
  })

  test('a service that is not ready in time fails the create', async () => {
    const slow = service('db', {
      run: 'echo starting; sleep 100000',
      ready: { command: 'false', timeoutMs: 3000 },
    })
    const error = await fails(
      engine.sandboxes.create({ environment: { services: [slow] } }, LOCAL),
      'failed_precondition',
      'service.failed',
    )
    assert.equal(error.message, 'service db did not start: it was not ready after 3 s:\nstarting')
    assert.deepEqual(provider.existing, [])
  })

  test('services after a failed one are not started', async () => {
    const bad = service('b', { run: 'exit 1', ready: { command: 'false', timeoutMs: 9000 } })
    await fails(
      engine.sandboxes.create({ environment: { services: [service('a'), bad, service('c')] } }, LOCAL),
      'failed_precondition',
      'service.failed',
    )
    const [record] = engine.sandboxes.list({ labels: {}, all: true }, LOCAL)
    assert.ok(record)
    assert.deepEqual(ready(record.id), ['a'], 'the last one would have been ready at once')
  })

  test('SECURITY: the output of a failed service is shortened and has no control characters', async () => {
    const loud = service('db', {
      run: `echo '\u001b[2J\u0007\u202e${'x'.repeat(20_000)}end'; exit 1`,
      ready: { command: 'false', timeoutMs: 60_000 },
    })
    const { message } = await fails(
      engine.sandboxes.create({ environment: { services: [loud] } }, LOCAL),
      'failed_precondition',
      'service.failed',
    )
    assert.doesNotMatch(message.replaceAll('\n', ''), /\p{C}/u)
    assert.ok(message.length < 5000)
    assert.match(message, /xend$/)
  })

  test('a failed service can be corrected and started again', async () => {
    const id = await create({
      services: [
        service('web', {
          needsProject: true,
          run: 'cat /config; sleep 100000',
          ready: { command: 'cat /config', timeoutMs: 1000 },
        }),
      ],
    })
    const error = await fails(
      engine.guests.startProjectServices(id, LOCAL),
      'failed_precondition',
      'service.failed',
    )
    assert.match(error.message, /No such file/)
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
    for (const process of provider.inside(id).processes) process.kill()
    provider.inside(id).files.set('/config', Buffer.from('x'))
    await passing(engine.guests.startProjectServices(id, LOCAL))
    assert.deepEqual(started(id), ['web!', 'web#2'])
    for (const process of provider.inside(id).processes) process.kill()
    await passing(engine.guests.startProjectServices(id, LOCAL))
    assert.deepEqual(started(id), ['web!', 'web#2!', 'web#3'])
  })

  test('a destroy does not wait for a service that never gets ready', async () => {
    const never = service('db', { ready: { command: 'false', timeoutMs: 1_000_000 } })
    const making = engine.sandboxes.create({ environment: { services: [never] } }, LOCAL)
    making.catch(() => undefined)
    const before = clock.now()
    const known = (): string | undefined =>
      engine.sandboxes.list({ labels: {}, all: true }, LOCAL).find(({ state }) => state === 'creating')?.id
    while (known() === undefined || provider.existing.length === 0)
      await passing(new Promise((done) => setTimeout(done, 5)))
    const id = known() as SandboxId
    await passing(engine.sandboxes.destroy(id, LOCAL))
    await fails(making, 'canceled', 'service.canceled')
    assert.deepEqual(provider.existing, [])
    assert.ok(clock.now() - before < 60_000, 'nobody waited for it')
  })

  test('a create fails at once if the sandbox ends while a service starts', async () => {
    const making = engine.sandboxes.create(
      {
        environment: { services: [service('db', { ready: { command: 'false', timeoutMs: 1_000_000 } })] },
      },
      LOCAL,
    )
    const failed = fails(making, 'unavailable', 'stream.cut')
    await clock.advance(100)
    for (const id of provider.existing) provider.lose(id)
    await failed
    assert.deepEqual(provider.existing, [])
  })
})

describe('the command of every start', () => {
  test('a failed start command fails the create with the end of its output', async () => {
    const id = await create({ start: 'echo no database; exit 2' })
    const error = await fails(
      engine.guests.startProjectServices(id, LOCAL),
      'failed_precondition',
      'start.failed',
    )
    assert.equal(error.message, 'the start command failed with code 2:\nno database')
  })

  test('the start command runs at every start, after the services', async () => {
    const id = await create({ services: [service('db')], start: 'write /order started' })
    await passing(engine.sandboxes.stop(id, LOCAL))
    provider.inside(id).files.delete('/order')
    await passing(engine.sandboxes.start(id, LOCAL))
    assert.equal(provider.inside(id).files.get('/order')?.toString(), 'started')
  })

  test('a start command that fails at a start leaves the sandbox stopped, with its files', async () => {
    const id = await create({ start: 'cat /config' })
    provider.inside(id).files.set('/data', Buffer.from('x'))
    await passing(engine.sandboxes.stop(id, LOCAL))
    await fails(engine.sandboxes.start(id, LOCAL), 'failed_precondition', 'start.failed')
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'stopped')
    assert.ok(provider.inside(id).files.has('/data'))
  })

  test('startProjectServices of a sandbox that does not run is refused', async () => {
    const id = await create({ start: 'true' })
    await passing(engine.sandboxes.stop(id, LOCAL))
    await fails(engine.guests.startProjectServices(id, LOCAL), 'conflict', 'sandbox.state')
  })
})

describe('a stop', () => {
  test('ENV-9 a stop asks services to end, last first, each with its signal, before anything else ends', async () => {
    const id = await create({
      services: [
        service('db', { stopSignal: 'SIGINT' }),
        service('cache'),
        service('web', { stopSignal: 'SIGQUIT' }),
      ],
    })
    const { signals } = provider.inside(id)
    await passing(engine.sandboxes.stop(id, LOCAL))
    assert.deepEqual(signals, [
      'SIGQUIT agentpod.service.web',
      'SIGTERM agentpod.service.cache',
      'SIGINT agentpod.service.db',
    ])
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'stopped')
  })

  test('a start after a stop starts all services in order, also those that need the project', async () => {
    const id = await create({ services: [service('db'), service('web', { needsProject: true })] })
    await passing(engine.sandboxes.stop(id, LOCAL))
    await passing(engine.sandboxes.start(id, LOCAL))
    assert.deepEqual(started(id), ['db', 'web'])
    assert.equal(engine.sandboxes.get(id, LOCAL).state, 'running')
  })

  test('a stop ends the running process of a service that was started twice', async () => {
    const id = await create({ services: [service('web')] })
    for (const process of provider.inside(id).processes) process.kill()
    await passing(engine.guests.startProjectServices(id, LOCAL))
    const { signals } = provider.inside(id)
    await passing(engine.sandboxes.stop(id, LOCAL))
    assert.deepEqual(signals, ['SIGTERM agentpod.service.web#2'])
  })

  test('SECURITY: services that do not end cannot delay a stop', async () => {
    const many = Array.from({ length: 32 }, (_, n) => service(`s${n}`, { stopMs: 1_000_000 }))
    const id = await create({ services: many })
    const inside = provider.inside(id)
    // They take the signal and go on.
    for (const process of inside.processes) process.kill = () => undefined
    const before = clock.now()
    const stopping = engine.sandboxes.stop(id, LOCAL)
    let isOver = false
    stopping.finally(() => {
      isOver = true
    })
    while (!isOver && clock.now() - before < 120_000) await clock.advance(500)
    assert.ok(isOver && clock.now() - before <= 32_000, `it took ${clock.now() - before} ms`)
    await stopping
  })
})
