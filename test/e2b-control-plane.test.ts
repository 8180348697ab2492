// E2B's control plane over a real engine on a fake provider: what each path answers, and to whom.

import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import type { DatabaseSync } from 'node:sqlite'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Hono } from 'hono'
import { access } from '../src/api/access.ts'
import { LATER } from '../src/api/e2b/later.ts'
import { e2bRoutes } from '../src/api/e2b/routes.ts'
import { setPrincipal } from '../src/api/principal-of.ts'
import { parseOwner } from '../src/core/id.ts'
import { Engine } from '../src/engine/engine.ts'
import { openDatabase } from '../src/store/database.ts'
import { EVENT_MIGRATIONS, eventStore } from '../src/store/events.ts'
import { STATE_MIGRATIONS, sandboxStore } from '../src/store/sandboxes.ts'
import { silentLog } from '../src/telemetry/log.ts'
import { FakeClock } from '../src/testing/fake-clock.ts'
import { FakeProvider } from '../src/testing/fake-provider.ts'
import { SeededRandom } from '../src/testing/seeded-random.ts'

let databases: DatabaseSync[] = []
let clock: FakeClock
let engine: Engine
let routes: Hono
before(async () => {
  clock = new FakeClock()
  const state = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
  const events = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
  databases = [state, events]
  engine = new Engine({
    sandboxes: sandboxStore(state),
    events: eventStore(events),
    provider: new FakeProvider({ clock }),
    roots: { ensure: async () => ({ kind: 'host' }) },
    owner: parseOwner('e2b-test'),
    clock,
    random: new SeededRandom(3),
    log: silentLog,
  })
  await engine.start()
  routes = e2bRoutes({
    engine,
    access: access('secret'),
    clock,
    random: new SeededRandom(4),
    log: silentLog,
    domains: [],
    tcpAddress: () => ({ host: '127.0.0.1', port: 8080, isTls: false }),
  })
})
after(() => {
  engine.stop()
  for (const db of databases) db.close()
})
beforeEach(async () => {
  await Promise.all(engine.list({ labels: {}, all: false }).map(({ id }) => engine.destroy(id)))
})

type Body = Record<string, unknown>
interface Answer {
  readonly status: number
  readonly body: Body & { code?: number; message?: string }
  readonly headers: Headers
}

interface Ask {
  readonly body?: unknown
  readonly owner?: string
  readonly headers?: Record<string, string>
}

async function ask(line: string, { body, owner = 'one', headers = {} }: Ask = {}): Promise<Answer> {
  const [method = '', path = ''] = line.split(' ')
  const incoming = {} as IncomingMessage
  setPrincipal(incoming, { owner, isAdmin: owner === 'admin' })
  const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
  const response = await routes.request(path, init, { incoming })
  const text = await response.text()
  return {
    status: response.status,
    body: text === '' ? {} : (JSON.parse(text) as Body),
    headers: response.headers,
  }
}

async function create(o: Ask = {}): Promise<string> {
  const { status, body } = await ask('POST /v2/sandboxes', {
    ...o,
    body: { templateID: 'base', ...(o.body as Body) },
  })
  assert.equal(status, 201)
  return String(body['sandboxID'])
}

const endOf = async (id: string): Promise<number> => {
  const { body } = await ask(`GET /sandboxes/${id}`)
  return (Date.parse(String(body['endAt'])) - clock.now()) / 1000
}

describe('create', () => {
  test('answers with everything a client needs, on both paths', async () => {
    for (const path of ['/sandboxes', '/v2/sandboxes']) {
      const { status, body } = await ask(`POST ${path}`, { body: { templateID: 'base' } })
      assert.equal(status, 201)
      assert.deepEqual(Object.keys(body).sort(), [
        'alias',
        'clientID',
        'domain',
        'envdAccessToken',
        'envdVersion',
        'sandboxID',
        'templateID',
        'trafficAccessToken',
      ])
      assert.equal(body['domain'], 'localhost:8080')
      assert.equal(body['trafficAccessToken'], null)
      assert.match(String(body['envdAccessToken']), /^[0-9a-f]{64}$/)
    }
  })

  test('gives a traffic token where ports are private', async () => {
    const { body } = await ask('POST /sandboxes', { body: { network: { allowPublicTraffic: false } } })
    assert.match(String(body['trafficAccessToken']), /^[0-9a-f]{64}$/)
    assert.notEqual(body['trafficAccessToken'], body['envdAccessToken'])
  })

  test('twice with one idempotency key is once', async () => {
    const headers = { 'idempotency-key': 'a-key' }
    assert.equal(await create({ headers }), await create({ headers }))
    assert.notEqual(await create({ headers, owner: 'two' }), await create({ headers }))
  })

  test('refuses what it cannot keep, in E2B’s form', async () => {
    const { status, body } = await ask('POST /v2/sandboxes', { body: { autoPause: true } })
    assert.equal(status, 400)
    assert.deepEqual(Object.keys(body).sort(), ['code', 'message'])
    assert.equal(body.code, 400)
    assert.equal((await ask('POST /v2/sandboxes', { body: { timeout: 31 * 86_400 } })).status, 400)
    assert.equal((await ask('POST /v2/sandboxes', { body: { templateID: 'other' } })).status, 404)
    assert.equal(engine.livingCount, 0)
  })
})

describe('time', () => {
  test('connect only ever extends', async () => {
    const id = await create({ body: { timeout: 600 } })
    assert.equal((await ask(`POST /v2/sandboxes/${id}/connect`, { body: { timeout: 60 } })).status, 200)
    assert.equal(await endOf(id), 600)
    await ask(`POST /sandboxes/${id}/connect`, { body: { timeout: 900 } })
    assert.equal(await endOf(id), 900)
  })
  test('timeout extends and shortens', async () => {
    const id = await create({ body: { timeout: 600 } })
    const { status, headers } = await ask(`POST /sandboxes/${id}/timeout`, { body: { timeout: 60 } })
    assert.equal(status, 204)
    assert.equal(headers.get('content-type'), null)
    assert.equal(await endOf(id), 60)
    await ask(`POST /sandboxes/${id}/timeout`, { body: { timeout: 700 } })
    assert.equal(await endOf(id), 700)
  })
  test('a timeout of nothing ends it', async () => {
    const id = await create()
    assert.equal((await ask(`POST /sandboxes/${id}/timeout`, { body: { timeout: 0 } })).status, 204)
    assert.equal((await ask(`GET /sandboxes/${id}`)).status, 404)
  })
  test('refreshes extend', async () => {
    const id = await create({ body: { timeout: 30 } })
    assert.equal((await ask(`POST /sandboxes/${id}/refreshes`, { body: { duration: 100 } })).status, 204)
    assert.equal(await endOf(id), 100)
    await ask(`POST /sandboxes/${id}/refreshes`)
    assert.equal(await endOf(id), 100)
  })
  test('one that runs cannot be resumed', async () => {
    const id = await create()
    const { status, body } = await ask(`POST /sandboxes/${id}/resume`, { body: { timeout: 60 } })
    assert.equal(status, 409)
    assert.equal(body.code, 409)
  })
})

describe('a sandbox of somebody else', () => {
  const PATHS = [
    'GET /sandboxes/:id',
    'DELETE /sandboxes/:id',
    'POST /sandboxes/:id/connect',
    'POST /v2/sandboxes/:id/connect',
    'POST /sandboxes/:id/timeout',
    'POST /sandboxes/:id/refreshes',
    'POST /sandboxes/:id/resume',
    'GET /sandboxes/:id/metrics',
    'GET /sandboxes/:id/logs',
    'GET /v2/sandboxes/:id/logs',
  ]
  for (const path of PATHS) {
    test(`is not there: ${path}`, async () => {
      const id = await create()
      const body = path.startsWith('POST') ? { timeout: 1 } : undefined
      const theirs = await ask(path.replace(':id', id), { owner: 'two', body })
      const never = await ask(path.replace(':id', 'never0000000'), { owner: 'two', body })
      assert.equal(theirs.status, 404)
      assert.equal(theirs.body.code, 404)
      assert.equal(theirs.body.message?.replace(id, ''), never.body.message?.replace('never0000000', ''))
      assert.equal(await endOf(id), 300)
    })
  }
  test('is in no list of theirs, and in the admin’s', async () => {
    const id = await create()
    for (const path of ['/sandboxes', '/v2/sandboxes']) {
      assert.deepEqual((await ask(`GET ${path}`, { owner: 'two' })).body, [])
      const all = (await ask(`GET ${path}`, { owner: 'admin' })).body as unknown as Body[]
      assert.deepEqual(
        all.map((one) => one['sandboxID']),
        [id],
      )
    }
    assert.deepEqual((await ask(`GET /sandboxes/metrics?sandbox_ids=${id}`, { owner: 'two' })).body, {
      sandboxes: {},
    })
  })
})

describe('ids that cannot be', () => {
  for (const id of ['%00', 'A', '-', 'x'.repeat(5000), '__proto__', '%F0%9F%92%A9', '%zz']) {
    test(id.slice(0, 20), async () => {
      const { status, body } = await ask(`GET /sandboxes/${id}/logs`)
      assert.equal(status, 404)
      assert.ok(body.code === 404 || Object.keys(body).length === 0)
    })
  }
})

test('the next page is named in a header', async () => {
  const ids = [await create(), await create(), await create()]
  const first = await ask('GET /v2/sandboxes?limit=2')
  const token = first.headers.get('x-next-token') ?? ''
  const second = await ask(`GET /v2/sandboxes?limit=2&nextToken=${encodeURIComponent(token)}`)
  assert.equal(second.headers.get('x-next-token'), null)
  const seen = [...(first.body as unknown as Body[]), ...(second.body as unknown as Body[])]
  assert.deepEqual(seen.map((one) => String(one['sandboxID'])).sort(), ids.sort())
})

test('logs tell what happened, also of one that has ended', async () => {
  const id = await create()
  await ask(`DELETE /sandboxes/${id}`)
  const { body } = await ask(`GET /v2/sandboxes/${id}/logs?direction=backward&limit=1`)
  const [entry] = body['logs'] as Body[]
  assert.equal(entry?.['message'], 'sandbox destroyed')
  const older = await ask(`GET /sandboxes/${id}/logs`)
  assert.deepEqual(Object.keys(older.body).sort(), ['logEntries', 'logs'])
  assert.equal((await ask(`GET /v2/sandboxes/${id}/logs?level=error`)).body['logs']?.toString(), '')
})

test('a metric is of now', async () => {
  const id = await create()
  const asked = ask(`GET /sandboxes/${id}/metrics`)
  await clock.advance(1000)
  const [metric] = (await asked).body as unknown as Body[]
  assert.equal(metric?.['cpuCount'], 2)
  assert.equal(typeof metric?.['memUsed'], 'number')
})

describe('templates', () => {
  test('there is base', async () => {
    const all = (await ask('GET /templates')).body as unknown as Body[]
    assert.deepEqual(
      all.map((one) => one['templateID']),
      ['base'],
    )
    assert.equal((await ask('GET /templates/aliases/base')).status, 200)
    assert.equal((await ask('GET /templates/aliases/other')).status, 404)
  })
})

describe('what comes later', () => {
  for (const [method, path, what] of LATER) {
    const line = `${method === 'ALL' ? 'POST' : method} ${path.replaceAll(/:id|\*/g, 'abcd')}`
    test(line, async () => {
      const { status, body } = await ask(line, line.startsWith('GET') ? {} : { body: {} })
      assert.equal(status, 501)
      assert.equal(body.code, 501)
      assert.ok(body.message?.includes(what))
    })
  }
})

test('a body that is no JSON is refused', async () => {
  const response = await routes.request('/v2/sandboxes', { method: 'POST', body: '{"templateID":' })
  assert.equal(response.status, 400)
  assert.deepEqual(Object.keys((await response.json()) as Body).sort(), ['code', 'message'])
})
