/**
 * Model usage, counted on the wire: from a TLS site through the egress process and its control socket to the
 * server.
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { createServer } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { gzipSync } from 'node:zlib'
import type { UsageRecord } from '../core/network.ts'
import { type StartedEgress, startEgress } from '../egress/egress.ts'
import { testPolicy } from '../egress/testing/egress-fixture.ts'
import { FakePodd } from '../egress/testing/fake-podd.ts'
import {
  ADDRESS,
  get,
  HOST,
  SANDBOX_AUTHORITY,
  SITE_AUTHORITY,
  sendRaw,
  TEST_PLACEHOLDER,
  testSecret,
  VALUE,
} from '../egress/testing/tls-fixture.ts'
import { TlsInterceptor } from '../egress/tls/intercept.ts'
import type { LinkRules } from '../engine/network/network-parts.ts'
import { silentLog } from '../telemetry/log.ts'
import { systemClock } from '../util/clock.ts'
import { systemRandom } from '../util/random.ts'
import { makeCertificate } from '../util/x509/certificate.ts'
import { EgressProcess } from './egress-process.ts'

const BEARER = { Authorization: `Bearer ${TEST_PLACEHOLDER}` }
const STREAM = { 'Content-Type': 'text/event-stream; charset=utf-8' }
const event = (value: object): string => `data: ${JSON.stringify(value)}\n\n`
const START = event({
  type: 'message_start',
  message: {
    model: 'claude-x',
    usage: { input_tokens: 5, cache_read_input_tokens: 40, output_tokens: 1 },
  },
})
const END = event({ type: 'message_delta', usage: { output_tokens: 30 } })

describe('what a model answers', () => {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-usage-'))
  const socket = join(directory, 'egress.sock')
  const podd = new FakePodd(join(directory, 'out'))
  const door = { kind: 'socket', path: podd.path } as const
  const usage: UsageRecord[] = []
  const servers: EgressProcess[] = []
  let egress: StartedEgress
  let answer: (req: IncomingMessage, res: ServerResponse) => void
  const site = createServer(
    makeCertificate(SITE_AUTHORITY, [HOST], { now: systemClock.now(), random: systemRandom }),
    (req, res) => {
      req.resume()
      answer(req, res)
    },
  )

  const link = (o: Partial<LinkRules> = {}): LinkRules => ({
    sandbox: 'sandbox1',
    policy: testPolicy([HOST]),
    secrets: [testSecret()],
    authority: SANDBOX_AUTHORITY,
    intercept: 'needed',
    meter: true,
    ...o,
  })
  const server = (): EgressProcess => {
    const one = new EgressProcess({
      socket,
      script: '/nonexistent',
      logFile: join(directory, 'egress.log'),
      relays: directory,
      memberSocket: join(directory, 'members.sock'),
      log: silentLog,
      clock: systemClock,
      onRecords: () => undefined,
      onUsage: (some) => void usage.push(...some),
    })
    servers.push(one)
    return one
  }
  const client = async (): Promise<TLSSocket> => {
    const stream = await podd.direct({ name: HOST, port: 443 })
    const tls = connectTls({ socket: stream, servername: HOST, ca: SANDBOX_AUTHORITY.cert })
    await once(tls, 'secureConnect')
    return tls
  }
  const ask = async (headers: Readonly<Record<string, string>> = BEARER): Promise<string> =>
    sendRaw(await client(), get('/v1/messages', headers))
  const heard = async (): Promise<UsageRecord[]> => {
    for (const end = performance.now() + 3000; usage.length === 0 && performance.now() < end; )
      await new Promise((resolve) => setTimeout(resolve, 5))
    return usage
  }
  const nothingHeard = async (): Promise<void> => {
    await new Promise((resolve) => setTimeout(resolve, 300))
    assert.deepEqual(usage, [])
  }
  const expected = (o: Partial<UsageRecord> = {}): UsageRecord => ({
    sandboxId: 'sandbox1',
    model: 'claude-x',
    input: 5,
    cached: 40,
    output: 30,
    ...o,
  })

  before(async () => {
    await new Promise<void>((resolve) => site.listen(0, '127.0.0.1', resolve))
    await podd.listen()
    egress = await startEgress({
      socketPath: socket,
      version: 'test',
      log: silentLog,
      interceptor: new TlsInterceptor(systemClock),
      trusted: [SITE_AUTHORITY.cert],
      resolve: async () => [ADDRESS],
      dial: async () => {
        const made = connect((site.address() as AddressInfo).port, '127.0.0.1')
        await once(made, 'connect')
        return made
      },
      ownAddresses: () => [],
    })
    server().open(link(), door)
  })
  after(async () => {
    for (const one of servers) one.disconnect()
    await egress.stop()
    await podd.close()
    site.closeAllConnections()
    site.close()
    rmSync(directory, { recursive: true, force: true })
  })
  beforeEach(() => {
    usage.length = 0
    servers.at(-1)?.open(link(), door)
    answer = (_, res) => void res.writeHead(200, STREAM).end(START + END)
  })

  test('model usage is counted and reported at once', async () => {
    const said = await ask()
    const at = performance.now()
    assert.match(said, /message_delta/, 'the client has it all')
    assert.deepEqual(await heard(), [expected()])
    assert.ok(performance.now() - at < 1000)
    await new Promise((resolve) => setTimeout(resolve, 200))
    assert.equal(usage.length, 1, 'once')
  })

  test('model usage is counted per request, also on one connection', async () => {
    const tls = await client()
    const both = get('/1', { ...BEARER, Connection: 'keep-alive' }) + get('/2', BEARER)
    await sendRaw(tls, both)
    await heard()
    await new Promise((resolve) => setTimeout(resolve, 200))
    assert.deepEqual(usage, [expected(), expected()])
  })

  test('model usage is counted over HTTP/2', async () => {
    const stream = await podd.direct({ name: HOST, port: 443 })
    const tls = connectTls({
      socket: stream,
      servername: HOST,
      ca: SANDBOX_AUTHORITY.cert,
      ALPNProtocols: ['h2'],
    })
    await once(tls, 'secureConnect')
    const session = connectHttp2(`https://${HOST}`, { createConnection: () => tls })
    const request = session.request({ ':path': '/v1', authorization: BEARER.Authorization })
    await request.resume().toArray()
    session.close()
    assert.deepEqual(await heard(), [expected()])
  })

  test('model usage is counted in compressed answers and in single documents', async () => {
    const body = JSON.stringify({ model: 'gpt-x', usage: { prompt_tokens: 9, completion_tokens: 2 } })
    answer = (_, res) =>
      void res
        .writeHead(200, { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' })
        .end(gzipSync(body))
    assert.ok((await ask()).includes(body), 'the client has it unpacked')
    assert.deepEqual(await heard(), [expected({ model: 'gpt-x', input: 9, cached: 0, output: 2 })])
  })

  test('model usage is counted up to the cut if the server cuts the answer', async () => {
    answer = (_, res) => {
      res.writeHead(200, STREAM).write(START)
      setTimeout(() => res.destroy(), 50)
    }
    await ask()
    assert.deepEqual(await heard(), [expected({ output: 1 })])
  })

  test('model usage is counted up to the cut if the client leaves', async () => {
    answer = (_, res) => void res.writeHead(200, STREAM).write(START)
    const tls = await client()
    tls.on('error', () => undefined)
    tls.write(get('/', BEARER))
    await once(tls, 'data')
    tls.destroy()
    assert.deepEqual(await heard(), [expected({ output: 1 })])
  })

  test('model usage is counted up to the cut if the sandbox ends', async () => {
    answer = (_, res) => void res.writeHead(200, STREAM).write(START)
    const tls = await client()
    tls.on('error', () => undefined)
    tls.write(get('/', BEARER))
    await once(tls, 'data')
    servers.at(-1)?.close('sandbox1')
    assert.deepEqual(await heard(), [expected({ output: 1 })])
    tls.destroy()
  })

  test('model usage is kept for the next server while there is none', async () => {
    servers.at(-1)?.disconnect()
    await ask()
    await nothingHeard()
    server().open(link(), door)
    assert.deepEqual(await heard(), [expected()])
  })

  test('model usage is not counted without metering, without a secret, or in other answers', async () => {
    servers.at(-1)?.open(link({ meter: false }), door)
    await ask()
    servers.at(-1)?.open(link(), door)
    await ask({})
    answer = (_, res) => void res.writeHead(200, { 'Content-Type': 'text/plain' }).end(START + END)
    await ask()
    await nothingHeard()
  })

  test('a refusal of a model uses nothing and is reported with its status', async () => {
    answer = (_, res) =>
      void res.writeHead(529, { 'Content-Type': 'application/json' }).end('{"type":"error","error":{}}')
    await ask()
    assert.deepEqual(await heard(), [expected({ model: '', input: 0, cached: 0, output: 0, refusal: 529 })])
  })

  test('SE-04 the value of a secret is never reported as the name of a model', async () => {
    answer = (_, res) =>
      void res
        .writeHead(200, { 'Content-Type': 'application/json' })
        .end(JSON.stringify({ model: `x-${VALUE}`, usage: { output_tokens: 1 } }))
    await ask()
    const [record] = await heard()
    assert.equal(record?.output, 1)
    assert.ok(record.model.startsWith('x-') && !record.model.includes(VALUE), record.model)
  })
})
