// Calls and traffic that resume a sandbox, those that must not, and the SDK. A real listener, a fake
// provider.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, beforeEach, describe, test } from 'node:test'
import { getRequestListener } from '@hono/node-server'
import { localDoor } from '../../src/api/door/local-door.ts'
import { signature } from '../../src/api/e2b/signed-file.ts'
import { listen } from '../../src/api/http/listen.ts'
import { AgentPod } from '../../src/client/client.ts'
import { isAgentPodError } from '../../src/core/error.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { Sandbox } from '../../src/core/sandbox.ts'
import type { Lifetime } from '../../src/core/spec.ts'
import type { NewSandbox } from '../../src/engine/lifecycle/sandbox-operations.ts'
import { closeServer } from '../../src/main/listeners.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { Front } from '../support/front.ts'
import { errorOf, type TcpAnswer, type TcpRequest, tcpRequest } from '../support/tcp.ts'
import { until } from '../support/world.ts'

let front: Front
let key = ''
let owner = ''
let directory = ''
let socket = ''
let local: Server
let pod: AgentPod
before(async () => {
  directory = mkdtempSync(join(tmpdir(), 'agentpod-wake-'))
  front = await Front.open({ rate: { perSecond: 1e6, burst: 1e6 }, tmpDir: directory, living: 20 })
  key = front.key()
  ;({ owner } = front.keys.verify(key))
  socket = join(directory, 'api.sock')
  local = await listen({
    door: localDoor(front.engine, getRequestListener(front.app.fetch), silentLog),
    address: { socket },
    onActivity: () => undefined,
  })
  pod = new AgentPod({ url: `http://127.0.0.1:${front.port}`, key })
})
after(async () => {
  pod.close()
  await closeServer(local)
  await front[Symbol.asyncDispose]()
  rmSync(directory, { recursive: true })
})
beforeEach(async () => {
  front.provider.heal()
  await Promise.all(
    front.engine.sandboxes
      .list({ labels: {}, all: false }, LOCAL)
      .map(({ id }) => front.engine.sandboxes.destroy(id, LOCAL)),
  )
})

const make = (lifetime: Partial<Lifetime> = {}, o: Partial<NewSandbox> = {}): Promise<Sandbox> =>
  front.engine.sandboxes.create({ owner, lifetime, ...o }, { owner, isAdmin: false })
const state = ({ id }: Sandbox): string => front.engine.sandboxes.get(id, LOCAL).state
const ask = (o: Omit<TcpRequest, 'port'>): Promise<TcpAnswer> => tcpRequest({ port: front.port, ...o })

/** Each way in, as a request that gets there when the sandbox runs. */
const WAYS: readonly {
  readonly name: string
  readonly request: (s: Sandbox, path?: string) => Omit<TcpRequest, 'port'>
  /** What it gets where it may not wake. */
  readonly asleep: { readonly status: number; readonly says: RegExp }
}[] = [
  {
    name: 'our data plane',
    request: (s, path = '/files?path=/a') => ({
      path,
      headers: { 'x-api-key': key, 'agentpod-sandbox': s.id },
    }),
    asleep: { status: 409, says: /sandbox\.state/ },
  },
  {
    name: 'E2B’s data plane by host',
    request: (s, path = '/files?path=/a') => ({
      path,
      host: `49983-${s.id}.localhost:${front.port}`,
      headers: { 'x-access-token': front.tokens.dataToken(s.id) },
    }),
    asleep: { status: 502, says: /The sandbox was not found/ },
  },
  {
    name: 'E2B’s data plane by header',
    request: (s, path = '/files?path=/a') => ({
      path,
      headers: { 'e2b-sandbox-id': s.id, 'x-access-token': front.tokens.dataToken(s.id) },
    }),
    asleep: { status: 502, says: /The sandbox was not found/ },
  },
  {
    name: 'a signed address',
    request: (s) => {
      const file = { path: '/a', operation: 'read', user: '', expiration: undefined } as const
      const given = encodeURIComponent(signature(file, front.tokens.dataToken(s.id)))
      return { path: `/files?path=/a&signature=${given}` }
    },
    asleep: { status: 502, says: /The sandbox was not found/ },
  },
]

for (const [verb, asleep] of [
  ['pause', 'paused'],
  ['stop', 'stopped'],
] as const) {
  describe(`${asleep} sandboxes`, () => {
    for (const way of WAYS) {
      test(`STATE-1 a ${asleep} sandbox is resumed over ${way.name}`, async () => {
        const sandbox = await make()
        front.provider.inside(sandbox.id).files.set('/a', Buffer.from('kept'))
        await front.engine.sandboxes[verb](sandbox.id, LOCAL)
        const answers = await Promise.all([ask(way.request(sandbox)), ask(way.request(sandbox))])
        for (const answer of answers) {
          assert.equal(answer.status, 200, answer.raw)
          assert.match(answer.text, /kept/)
        }
        assert.equal(state(sandbox), 'running')
      })

      test(`STATE-1 a ${asleep} sandbox that may not be resumed answers at once over ${way.name}`, async () => {
        const sandbox = await make({ autoResume: false })
        await front.engine.sandboxes[verb](sandbox.id, LOCAL)
        const answer = await ask(way.request(sandbox))
        assert.equal(answer.status, way.asleep.status)
        assert.match(answer.text, way.asleep.says)
        assert.equal(state(sandbox), asleep)
      })

      test(`a ${asleep} sandbox is not resumed over ${way.name} by a request that says never`, async () => {
        const sandbox = await make()
        await front.engine.sandboxes[verb](sandbox.id, LOCAL)
        const request = way.request(sandbox)
        const answer = await ask({ ...request, headers: { ...request.headers, 'agentpod-wake': 'never' } })
        assert.equal(answer.status, way.asleep.status)
        assert.equal(state(sandbox), asleep)
      })
    }

    test(`a ${asleep} sandbox is not resumed by the question whether it runs`, async () => {
      const sandbox = await make()
      await front.engine.sandboxes[verb](sandbox.id, LOCAL)
      for (const way of WAYS.slice(0, 3))
        assert.equal((await ask(way.request(sandbox, '/health'))).status, way.asleep.status)
      assert.equal(state(sandbox), asleep)
    })

    test(`a ${asleep} sandbox is not resumed by a request without a key, a token or a signature`, async () => {
      const sandbox = await make()
      await front.engine.sandboxes[verb](sandbox.id, LOCAL)
      const other = front.key()
      for (const o of [
        { path: '/files?path=/a', headers: { 'agentpod-sandbox': sandbox.id } },
        { path: '/files?path=/a', headers: { 'agentpod-sandbox': sandbox.id, 'x-api-key': other } },
        { path: '/files?path=/a', host: `49983-${sandbox.id}.localhost:${front.port}` },
        {
          path: '/files?path=/a',
          headers: { 'e2b-sandbox-id': sandbox.id, 'x-access-token': 'f'.repeat(64) },
        },
        { path: '/files?path=/a&signature=v1_x', host: `49983-${sandbox.id}.localhost:${front.port}` },
        { path: '/', host: `3000-${sandbox.id}.localhost:${front.port}` },
      ]) {
        const { status } = await ask(o)
        assert.ok([401, 403, 404].includes(status), `${JSON.stringify(o)} gave ${status}`)
      }
      assert.equal(state(sandbox), asleep)
    })

    test(`STATE-1 a ${asleep} sandbox is resumed by traffic to a port, where that is allowed`, async () => {
      const sandbox = await make({}, { ports: { public: true } })
      await front.engine.sandboxes[verb](sandbox.id, LOCAL)
      const host = `3000-${sandbox.id}.localhost:${front.port}`
      const answer = await ask({ path: '/', host })
      assert.equal(answer.status, 502)
      assert.match(answer.text, /port is not open/)
      assert.equal(state(sandbox), 'running')
    })

    test(`a ${asleep} sandbox that may not be resumed shows a page to a browser`, async () => {
      const sandbox = await make({ autoResume: false }, { ports: { public: true } })
      await front.engine.sandboxes[verb](sandbox.id, LOCAL)
      const host = `3000-${sandbox.id}.localhost:${front.port}`
      const { status, text } = await ask({ path: '/', host, headers: { accept: 'text/html' } })
      assert.equal(status, 502)
      assert.match(text, /^<!doctype html>/)
      assert.equal(state(sandbox), asleep)
    })

    test(`STATE-1 a ${asleep} sandbox is resumed over the unix socket, by a call and by a tunnel`, async () => {
      for (const line of ['GET /health2', 'GET /agentpod/tunnel?port=1']) {
        const sandbox = await make()
        await front.engine.sandboxes[verb](sandbox.id, LOCAL)
        const isTunnel = line.includes('tunnel')
        const raw = await new Promise<string>((resolve, reject) => {
          let text = ''
          connect(socket)
            .on('data', (chunk) => {
              text += chunk
            })
            .on('error', reject)
            .on('close', () => resolve(text))
            .write(
              `${line} HTTP/1.1\r\nhost: x\r\nagentpod-sandbox: ${sandbox.id}\r\n${
                isTunnel ? 'connection: upgrade\r\nupgrade: agentpod-tunnel' : 'connection: close'
              }\r\n\r\n`,
            )
        })
        assert.match(raw, isTunnel ? /port\.closed/ : /unimplemented/)
        assert.equal(state(sandbox), 'running')
      }
    })
  })
}

test('a call during a pause waits, and resumes the sandbox', async () => {
  const sandbox = await make()
  const release = front.provider.hang('pause')
  const pausing = front.engine.sandboxes.pause(sandbox.id, LOCAL)
  await until('it is being paused', () => state(sandbox) === 'pausing')
  // The way in is closed a moment later, when the guest has been told.
  await new Promise((resolve) => setTimeout(resolve, 20))
  const answer = ask({
    method: 'POST',
    path: '/files?path=/a',
    headers: {
      'x-api-key': key,
      'agentpod-sandbox': sandbox.id,
      'content-type': 'application/octet-stream',
    },
    body: 'x',
  })
  await new Promise((resolve) => setTimeout(resolve, 50))
  release()
  await pausing
  assert.equal((await answer).status, 200)
  assert.equal(state(sandbox), 'running')
})

test('a header of AgentPod does not reach the program inside', async () => {
  const sandbox = await make()
  const { guest, envd } = front.engine.guests.connection(sandbox.id, LOCAL)
  let seen: object = {}
  guest.passThrough = (request, o) => {
    seen = request.headers
    return envd.handle(request, o)
  }
  await ask({
    path: '/files?path=/a',
    headers: { 'x-api-key': key, 'agentpod-sandbox': sandbox.id, 'agentpod-wake': 'never', 'x-own': '1' },
  })
  assert.ok('x-own' in seen)
  assert.ok(!('agentpod-wake' in seen))
})

describe('the SDK', () => {
  test('the SDK pauses, resumes, stops and starts a sandbox', async () => {
    const sandbox = await pod.create({ lifetime: { whenOver: 'stop', autoResume: false } })
    assert.equal(sandbox.info.lifetime.whenOver, 'stop')
    assert.equal((await sandbox.pause()).info.state, 'paused')
    const resumed = await sandbox.resume({ ttlMs: 5000 })
    assert.equal(resumed.info.state, 'running')
    assert.equal(Date.parse(resumed.info.deadlineAt) - front.clock.now(), 5000)
    assert.equal((await sandbox.stop()).info.state, 'stopped')
    const error = await sandbox.readText('/a').then(
      () => assert.fail('it succeeded'),
      (thrown: unknown) => thrown,
    )
    assert.ok(isAgentPodError(error, 'conflict') && error.reason === 'sandbox.state')
    assert.match(error.hint ?? '', /agentpod start/)
    assert.equal((await sandbox.start()).info.state, 'running')
  })

  test('the SDK takes snapshots, creates sandboxes from them, and exports and imports them', async () => {
    const sandbox = await pod.create()
    await sandbox.writeFile('/a', Buffer.from('kept'))
    const snapshot = await sandbox.snapshot({ name: 'one', labels: { k: 'v' } })
    assert.equal(snapshot.sandboxId, sandbox.id)
    assert.deepEqual(await pod.snapshots.get('one'), snapshot)
    for (const o of [{}, { labels: { k: 'v' } }, { name: 'one' }, { sandbox: sandbox.id }])
      assert.deepEqual(await pod.snapshots.list(o), [snapshot])
    assert.deepEqual(await pod.snapshots.list({ labels: { k: 'w' } }), [])
    const chunks: Buffer[] = []
    for await (const chunk of (await pod.snapshots.export('one')) as AsyncIterable<Buffer>) chunks.push(chunk)
    const archive = Buffer.concat(chunks)
    await pod.snapshots.remove('one')
    for (const [name, body] of [
      ['back', archive],
      ['again', Readable.from([archive.subarray(0, 50), archive.subarray(50)])],
    ] as const) {
      assert.equal((await pod.snapshots.import(body, { name })).name, name)
      const copy = await pod.create({ snapshot: name })
      assert.equal(await copy.readText('/a'), 'kept')
      await pod.snapshots.remove(name)
    }
    await assert.rejects(
      pod.snapshots.import(archive.subarray(0, -1)),
      (error) => isAgentPodError(error, 'data_loss') && error.reason === 'snapshot.damaged',
    )
    await assert.rejects(pod.snapshots.get('one'), (error) => isAgentPodError(error, 'not_found'))
  })

  test('the SDK forks, and returns the forks that were made when some fail', async () => {
    const sandbox = await pod.create()
    await sandbox.writeFile('/a', Buffer.from('kept'))
    const forks = await sandbox.fork({ count: 2, name: 'copy', labels: { a: 'b' } })
    assert.deepEqual(forks.map(({ info }) => info.name).sort(), ['copy-1', 'copy-2'])
    for (const fork of forks) {
      assert.equal(await fork.readText('/a'), 'kept')
      assert.equal(fork.info.forkedFrom, sandbox.id)
    }
    const error = await sandbox.fork({ count: 20 }).then(
      () => assert.fail('it succeeded'),
      (thrown: unknown) => thrown,
    )
    assert.ok(isAgentPodError(error, 'resource_exhausted'))
    assert.equal(error.reason, 'fork.partial')
    const { made, errors } = error.details as { made: string[]; errors: unknown[] }
    assert.equal(made.length, 17)
    assert.equal(errors.length, 3)
    assert.match(error.message, /^3 of 20 forks failed/)
    for (const id of made) assert.equal(front.engine.sandboxes.get(id, LOCAL).state, 'running')
    await assert.rejects(
      sandbox.fork(),
      (thrown) => isAgentPodError(thrown, 'resource_exhausted') && thrown.reason === 'quota.living',
    )
  })

  test('the SDK does not restart a sandbox that was stopped during its stream', async () => {
    const sandbox = await pod.create()
    const process = sandbox.exec('sh', { args: ['-c', 'echo up; sleep 1000'] })
    const output = process.output()
    assert.equal((await output.next()).value?.data.toString(), 'up\n')
    const cut = output.next().then(
      () => assert.fail('it succeeded'),
      (thrown: unknown) => thrown,
    )
    await front.engine.sandboxes.stop(front.engine.sandboxes.get(sandbox.id, LOCAL).id, LOCAL)
    const error = await cut
    assert.ok(isAgentPodError(error, 'conflict'), String(error))
    assert.equal(error.reason, 'sandbox.state')
    assert.match(error.message, /is stopped/)
    assert.equal(front.engine.sandboxes.get(sandbox.id, LOCAL).state, 'stopped')
  })

  test('the SDK continues the same stream after a pause', async () => {
    const sandbox = await pod.create()
    const process = sandbox.exec('cat', { stdin: true })
    const output = process.output()
    const first = output.next()
    await process.write(Buffer.from('one'))
    assert.equal((await first).value?.data.toString(), 'one')
    const second = output.next()
    await sandbox.pause()
    // What is written wakes it.
    await process.write(Buffer.from('two'))
    assert.equal((await second).value?.data.toString(), 'two')
    await process.closeStdin()
    await output.next()
    assert.equal(process.exit.exitCode, 0)
  })

  test('the SDK starts a stopped sandbox with a new command', async () => {
    const sandbox = await pod.create()
    await sandbox.stop()
    const { stdout } = await sandbox.exec('echo', { args: ['awake'] }).wait()
    assert.equal(stdout, 'awake\n')
  })
})

test('an error of the data plane has our form for our clients', async () => {
  const sandbox = await make({ autoResume: false })
  await front.engine.sandboxes.pause(sandbox.id, LOCAL)
  const answer = await ask({
    path: '/process.Process/List',
    headers: { 'x-api-key': key, 'agentpod-sandbox': sandbox.id },
  })
  assert.deepEqual([answer.status, errorOf(answer).reason], [409, 'sandbox.state'])
})
