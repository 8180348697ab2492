// The API over a real engine on a fake provider: the control plane by request, the data plane over a socket.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import type { Server } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, beforeEach, describe, test } from 'node:test'
import { getRequestListener } from '@hono/node-server'
import type { Hono } from 'hono'
import { createApp } from '../../src/api/app.ts'
import { localDoor } from '../../src/api/door/local-door.ts'
import { OneTimeCodes } from '../../src/api/door/one-time-codes.ts'
import { sandboxTokens } from '../../src/api/door/sandbox-tokens.ts'
import { listen } from '../../src/api/http/listen.ts'
import { DEFAULT_RATE } from '../../src/api/http/rate-limit.ts'
import type { SandboxId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { Keys } from '../../src/engine/keys.ts'
import { EngineFixture } from '../../src/engine/testing/engine-fixture.ts'
import { keyStore } from '../../src/store/keys.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import { Metrics } from '../../src/telemetry/metrics.ts'
import type { FakeProvider } from '../../src/testing/fake-provider.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { asPrincipal } from '../support/as-principal.ts'

const SANDBOXES = '/v1/sandboxes'

let fixture: EngineFixture
let provider: FakeProvider
let engine: Engine
let app: Hono
before(async () => {
  fixture = new EngineFixture()
  engine = await fixture.open()
  provider = fixture.provider
  const { clock, state } = fixture
  const random = new SeededRandom(9)
  app = createApp({
    engine,
    version: '0',
    pid: 1,
    startedAt: 0,
    log: silentLog,
    random,
    keys: new Keys({ store: keyStore(state), clock, random }),
    tokens: sandboxTokens('secret'),
    clock,
    domains: [],
    codes: new OneTimeCodes({ clock, random }),
    metrics: new Metrics(),
    rate: DEFAULT_RATE,
    openTcp: async () => assert.fail('no TCP here'),
    tcpAddress: () => undefined,
    stop: () => undefined,
  })
})
after(() => fixture[Symbol.dispose]())
beforeEach(async () => {
  provider.heal()
  await Promise.all(
    engine.sandboxes
      .list({ labels: {}, all: false }, LOCAL)
      .map(({ id }) => engine.sandboxes.destroy(id, LOCAL)),
  )
})

interface Answer {
  status: number
  body: Record<string, unknown> & { error?: Record<string, unknown> }
}

async function ask(
  method: string,
  path: string,
  body?: string,
  headers: Record<string, string> = {},
): Promise<Answer> {
  const init = { method, headers, ...(body !== undefined && { body }) }
  const response = await app.request(path, init, asPrincipal(LOCAL))
  const text = await response.text()
  return { status: response.status, body: text === '' ? {} : JSON.parse(text) }
}

const post = (value: unknown, headers?: Record<string, string>): Promise<Answer> =>
  ask('POST', SANDBOXES, JSON.stringify(value), headers)

describe('wrong requests', () => {
  const WRONG: readonly { name: string; body: string; reason: string; says: RegExp; hint?: string }[] = [
    {
      name: 'an unknown key',
      body: '{"nmae":"x"}',
      reason: 'request.unknown_key',
      says: /nmae/,
      hint: 'did you mean name?',
    },
    {
      name: 'an unknown key inside',
      body: '{"resources":{"memoryMb":1}}',
      reason: 'request.unknown_key',
      says: /resources\.memoryMb/,
      hint: 'did you mean memoryMib?',
    },
    { name: 'a key like nothing known', body: '{"zzzzzz":1}', reason: 'request.unknown_key', says: /zzzzzz/ },
    {
      name: '__proto__',
      body: '{"__proto__":{"name":"x"}}',
      reason: 'body.dangerous_key',
      says: /__proto__/,
    },
    {
      name: 'constructor',
      body: '{"constructor":{"prototype":{}}}',
      reason: 'body.dangerous_key',
      says: /constructor/,
    },
    {
      name: '__proto__ inside',
      body: '{"lifetime":{"__proto__":{"ttlMs":1}}}',
      reason: 'body.dangerous_key',
      says: /__proto__/,
    },
    { name: 'a wrong type', body: '{"name":7}', reason: 'request.malformed', says: /^name: / },
    {
      name: 'a wrong type deep inside',
      body: '{"environment":{"sudo":"yes"}}',
      reason: 'request.malformed',
      says: /^environment\.sudo: /,
    },
    { name: 'an array', body: '[]', reason: 'request.malformed', says: /the body/ },
    { name: 'null', body: 'null', reason: 'request.malformed', says: /the body/ },
    { name: 'half a document', body: '{"name":', reason: 'body.malformed', says: /not valid JSON/ },
    { name: 'no UTF-8', body: '\ud800', reason: 'body.malformed', says: /not valid JSON/ },
    {
      name: 'an unknown base',
      body: '{"environment":{"base":"windows"}}',
      reason: 'request.malformed',
      says: /environment\.base/,
    },
    {
      name: 'an image that is an address',
      body: '{"environment":{"base":"image","image":"https://a.example.com/x"}}',
      reason: 'request.malformed',
      says: /environment\.image/,
    },
    {
      name: 'a variable that is no name',
      body: '{"environment":{"variables":{"A=B":"x"}}}',
      reason: 'request.malformed',
      says: /variables/,
    },
    {
      name: 'a NUL in a variable',
      body: '{"environment":{"variables":{"A":"\\u0000"}}}',
      reason: 'request.malformed',
      says: /NUL/,
    },
    {
      name: 'a user that is an option',
      body: '{"environment":{"user":"-u"}}',
      reason: 'request.malformed',
      says: /user name/,
    },
    {
      name: 'a control character in a label',
      body: '{"labels":{"a":"\\u001b"}}',
      reason: 'request.malformed',
      says: /control/,
    },
    {
      name: 'a size that is absurd',
      body: '{"resources":{"memoryMib":1e99}}',
      reason: 'resources.memoryMib',
      says: /memoryMib/,
    },
  ]
  for (const { name, body, reason, says, hint } of WRONG) {
    test(`a request with ${name} is refused by name`, async () => {
      const answer = await ask('POST', SANDBOXES, body)
      assert.equal(answer.status, 400)
      assert.equal(answer.body.error?.['code'], 'invalid_argument')
      assert.equal(answer.body.error?.['reason'], reason)
      assert.match(String(answer.body.error?.['message']), says)
      assert.equal(answer.body.error?.['hint'], hint)
      assert.deepEqual(provider.existing, [])
    })
  }

  test('a request with a huge body is cut off', async () => {
    const answer = await ask('POST', SANDBOXES, JSON.stringify({ name: 'x'.repeat(5 * 1024 * 1024) }))
    assert.equal(answer.status, 413)
    assert.equal(answer.body.error?.['reason'], 'body.too_large')
  })

  for (const [method, path] of [
    ['GET', '/'],
    ['GET', '/v1/nothing'],
    ['PUT', SANDBOXES],
    ['POST', `${SANDBOXES}/abcd/explode`],
  ] as const) {
    test(`${method} ${path} is an unknown route, in our form`, async () => {
      const answer = await ask(method, path)
      assert.equal(answer.status, 404)
      assert.equal(answer.body.error?.['reason'], 'route.unknown')
    })
  }
})

describe('the life of a sandbox', () => {
  test('a sandbox is created, read, extended and destroyed', async () => {
    const { status, body } = await post({ name: 'box', labels: { a: 'b' }, lifetime: { ttlMs: 5000 } })
    assert.equal(status, 201)
    assert.deepEqual([body['state'], body['name'], body['ending']], ['running', 'box', null])
    assert.deepEqual((await ask('GET', `${SANDBOXES}/box`)).body, body)
    assert.deepEqual((await ask('GET', `${SANDBOXES}?label=a%3Db`)).body, [body])
    assert.deepEqual((await ask('GET', `${SANDBOXES}?label=a%3Dc`)).body, [])
    const extended = await ask('POST', `${SANDBOXES}/box/extend`, '{"ttlMs":60000}')
    assert.ok(String(extended.body['deadlineAt']) > String(body['deadlineAt']))
    assert.equal((await ask('GET', `${SANDBOXES}/box/stats`)).status, 200)
    for (let again = 0; again < 2; again++) {
      const gone = await ask('DELETE', `${SANDBOXES}/${body['id']}`)
      assert.deepEqual([gone.status, gone.body['state']], [200, 'destroyed'])
    }
    const events = (await ask('GET', `${SANDBOXES}/${body['id']}/events`)).body as unknown as {
      type: string
    }[]
    assert.equal(events.at(-1)?.type, 'sandbox.destroyed')
  })

  test('a create without a body makes a sandbox of defaults', async () => {
    assert.equal((await ask('POST', SANDBOXES)).status, 201)
  })

  const STATUSES = [
    ['not_found', 404],
    ['conflict', 409],
    ['unsupported', 422],
    ['resource_exhausted', 429],
    ['unavailable', 503],
    ['deadline_exceeded', 504],
    ['data_loss', 500],
  ] as const
  for (const [code, status] of STATUSES) {
    test(`${code} of the provider is status ${status}`, async () => {
      provider.fail('create', { code, times: 1 })
      const answer = await post({})
      assert.equal(answer.status, status)
      assert.equal(answer.body.error?.['code'], code)
    })
  }

  test('an internal failure gives an incident and none of its text', async () => {
    provider.onCreate = () => {
      throw new Error('secret of the inside')
    }
    const answer = await post({})
    provider.onCreate = () => undefined
    assert.equal(answer.status, 500)
    assert.match(String(answer.body.error?.['incident']), /^[a-z0-9]{12}$/)
    assert.ok(!JSON.stringify(answer.body).includes('secret'))
  })
})

describe('an idempotency key', () => {
  test('an idempotency key makes two requests one, and two bodies a conflict', async () => {
    const headers = { 'idempotency-key': 'once' }
    const [one, two] = await Promise.all([
      post({ labels: { a: 'b' } }, headers),
      post({ labels: { a: 'b' } }, headers),
    ])
    assert.deepEqual(one, two)
    assert.equal((await post({}, headers)).body.error?.['reason'], 'request_key.reused')
    assert.equal(provider.existing.length, 1)
  })

  test('an idempotency key that is too long is refused', async () => {
    assert.equal((await post({}, { 'idempotency-key': 'x'.repeat(257) })).status, 400)
    assert.equal((await post({}, { 'idempotency-key': 'x'.repeat(256) })).status, 201)
  })
})

describe('the data plane', () => {
  let directory = ''
  let socket = ''
  let server: Server
  let id: SandboxId
  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'agentpod-api-'))
    socket = join(directory, 'api.sock')
    server = await listen({
      door: localDoor(engine, getRequestListener(app.fetch), silentLog),
      address: { socket },
      onActivity: () => undefined,
    })
  })
  after(async () => {
    await new Promise((resolve) => server.close(resolve))
    rmSync(directory, { recursive: true })
  })
  beforeEach(async () => {
    ;({ id } = await engine.sandboxes.create({}, LOCAL))
  })

  /** Bytes as they are: no client may tidy up the path on its way. */
  function raw(
    method: string,
    target: string,
    body = '',
    ref: string = id,
  ): Promise<{ status: number; text: string }> {
    return new Promise((resolve, reject) => {
      let text = ''
      connect(socket)
        .on('data', (chunk) => {
          text += chunk
        })
        .on('error', reject)
        .on('close', () => resolve({ status: Number(text.split(' ')[1]), text }))
        .end(
          `${method} ${target} HTTP/1.1\r\nhost: x\r\nagentpod-sandbox: ${ref}\r\ncontent-type: application/octet-stream\r\ncontent-length: ${body.length}\r\nconnection: close\r\n\r\n${body}`,
        )
    })
  }

  test('the data plane passes requests to the guest and back', async () => {
    assert.equal((await raw('POST', '/files?path=/tmp/a', 'content')).status, 200)
    assert.match((await raw('GET', '/files?path=/tmp/a')).text, /content/)
    assert.equal((await raw('GET', '/files?path=/none')).status, 404)
  })

  test('the data plane of an unknown sandbox answers in our form', async () => {
    assert.match((await raw('GET', '/health', '', 'unknown1')).text, /sandbox\.unknown/)
    await engine.sandboxes.destroy(id, LOCAL)
    assert.match((await raw('GET', '/health')).text, /sandbox\.ended/)
  })

  const SPELLINGS = [
    '/agentpod/NAME',
    '/agentpod/NAME/',
    '/agentpod/NAME?x=1',
    '/agentpod/NAME#x',
    '//agentpod/NAME',
    '/agentpod//NAME',
    '///agentpod///NAME//',
    '/./agentpod/NAME',
    '/agentpod/./NAME',
    '/x/../agentpod/NAME',
    '/agentpod/x/../NAME',
    '/%2e/agentpod/NAME',
    '/x/%2e%2E/agentpod/NAME',
    '/agentpod%2fNAME',
    '/%61gentpod/NAME',
    '/%2Fagentpod/NAME',
    '/AgentPod/NAME',
    '/agentpod/NAME/.',
    'http://sandbox/agentpod/NAME',
    'http://x@y/agentpod/NAME',
    'https:///agentpod/NAME',
    'foo:///agentpod/NAME',
    'https://@/agentpod/NAME',
    'https://:/agentpod/NAME',
    'http://[bad/agentpod/NAME',
    '/agentpod/NAME%00/../NAME',
    '/agentpod/NAME%',
    '/agentpod/NAME%ff',
    '*',
  ]
  /** Lets the guest take every call that comes to it. */
  const takingEverything = (): string[] => {
    const reached: string[] = []
    engine.guests.connection(id, LOCAL).guest.passThrough = async ({ method, path }) => {
      reached.push(`${method} ${path}`)
      return { status: 200, headers: {}, body: Readable.from([]) }
    }
    return reached
  }
  for (const spelling of SPELLINGS) {
    for (const [name, body] of [
      [
        'init',
        '{"env":{"EVIL":"1"},"defaultUser":"root","defaultWorkdir":"","sudo":true,"lease":{"remainingMs":0,"idleMs":0}}',
      ],
      ['lease', '{"remainingMs":0,"idleMs":0}'],
    ] as const) {
      test(`PUT ${spelling.replace('NAME', name)} does not reach the guest`, async () => {
        const reached = takingEverything()
        const { status, text } = await raw('PUT', spelling.replaceAll('NAME', name), body)
        assert.ok([400, 403].includes(status), text)
        assert.deepEqual(reached, [])
        assert.equal(provider.inside(id).init.value?.sudo, false)
      })
    }
  }

  test('a path with a similar name reaches the guest, which has no such call', async () => {
    for (const path of ['/agentpod/initial', '/x/agentpod/init', '/agentpod/init/more'])
      assert.match((await raw('PUT', path)).text, /unimplemented/)
  })

  test('the control: the guest would accept the call that the server refuses', async () => {
    const reached = takingEverything()
    assert.equal((await raw('PUT', '/agentpod/initial', '{}')).status, 200)
    assert.deepEqual(reached, ['PUT /agentpod/initial'])
  })

  test('a tunnel goes to a port inside, and nowhere else', async () => {
    provider.inside(id).echoPorts.add(8080)
    const upgrade = (target: string): Promise<string> =>
      new Promise((resolve, reject) => {
        let text = ''
        const client = connect(socket)
          .on('data', (chunk) => {
            text += chunk
            if (text.includes('ping')) client.destroy()
            else if (text.startsWith('HTTP/1.1 101') && text.endsWith('\r\n\r\n')) client.write('ping')
          })
          .on('error', reject)
          .on('close', () => resolve(text))
        client.write(
          `GET ${target} HTTP/1.1\r\nhost: x\r\nagentpod-sandbox: ${id}\r\nconnection: upgrade\r\nupgrade: agentpod-tunnel\r\n\r\n`,
        )
      })
    assert.match(await upgrade('/agentpod/tunnel?port=8080'), /101[\s\S]*ping$/)
    assert.match(await upgrade('/agentpod/tunnel?port=1'), /port\.closed/)
    for (const wrong of [
      '/agentpod/tunnel?port=0',
      '/agentpod/tunnel?port=70000',
      '/agentpod/tunnel',
      '/agentpod/init?port=8080',
    ])
      assert.match(await upgrade(wrong), /tunnel\.malformed/)
  })
})
