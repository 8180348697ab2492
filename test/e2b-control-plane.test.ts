// E2B's control plane over a real engine on a fake provider: what each path answers, and to whom.

import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
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
import { snapshotStore } from '../src/store/snapshots.ts'
import { silentLog } from '../src/telemetry/log.ts'
import { FakeClock } from '../src/testing/fake-clock.ts'
import { FakeProvider } from '../src/testing/fake-provider.ts'
import { SeededRandom } from '../src/testing/seeded-random.ts'

let databases: DatabaseSync[] = []
let clock: FakeClock
let provider: FakeProvider
let engine: Engine
let routes: Hono
before(async () => {
  clock = new FakeClock()
  const state = openDatabase({ path: ':memory:', synchronous: 'FULL', migrations: STATE_MIGRATIONS })
  const events = openDatabase({ path: ':memory:', synchronous: 'NORMAL', migrations: EVENT_MIGRATIONS })
  databases = [state, events]
  provider = new FakeProvider({ clock })
  engine = new Engine({
    sandboxes: sandboxStore(state),
    snapshots: snapshotStore(state),
    tmpDir: tmpdir(),
    events: eventStore(events),
    providers: [provider],
    roots: { ensure: async () => ({ root: { kind: 'host' } }) },
    owner: parseOwner('e2b-test'),
    clock,
    random: new SeededRandom(3),
    log: silentLog,
  })
  await engine.open()
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
  engine.close()
  for (const db of databases) db.close()
})
beforeEach(async () => {
  provider.heal()
  await Promise.all(engine.list({ labels: {}, all: false }).map(({ id }) => engine.destroy(id)))
  for (const { id } of engine.snapshots()) await engine.removeSnapshot(id)
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
    const { status, body } = await ask('POST /v2/sandboxes', { body: { mcp: { exa: {} } } })
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

const info = async (id: string): Promise<Body> => (await ask(`GET /sandboxes/${id}`)).body
const engineState = (id: string): string => engine.get(id).state
const sandboxesIn = async (query: string): Promise<unknown[]> =>
  ((await ask(`GET /v2/sandboxes${query}`)).body as unknown as Body[]).map((one) => one['sandboxID'])

describe('pause', () => {
  for (const [kind, body, state, mode] of [
    ['with its memory', {}, 'paused', 'full'],
    ['with its memory, as is said', { memory: true }, 'paused', 'full'],
    ['without its memory', { memory: false }, 'stopped', 'filesystem'],
  ] as const) {
    test(`${kind}, and back`, async () => {
      const id = await create({ body: { timeout: 600 } })
      const paused = await ask(`POST /sandboxes/${id}/pause`, { body })
      assert.deepEqual([paused.status, paused.headers.get('content-type')], [204, null])
      assert.equal(engineState(id), state)
      const { state: shown, pauseMode } = await info(id)
      assert.deepEqual([shown, pauseMode], ['paused', mode])
      const again = await ask(`POST /sandboxes/${id}/pause`, { body })
      assert.deepEqual([again.status, again.body.code], [409, 409])
      const connected = await ask(`POST /v2/sandboxes/${id}/connect`, { body: { timeout: 60 } })
      assert.equal(connected.status, 201)
      assert.equal(connected.body['sandboxID'], id)
      assert.match(String(connected.body['envdAccessToken']), /^[0-9a-f]{64}$/)
      assert.equal(await endOf(id), 60)
      assert.equal((await info(id))['state'], 'running')
      assert.equal((await info(id))['pauseMode'], undefined)
      assert.equal((await ask(`POST /v2/sandboxes/${id}/connect`)).status, 200)
    })
  }

  test('needs no body', async () => {
    const id = await create()
    assert.equal((await ask(`POST /sandboxes/${id}/pause`)).status, 204)
    assert.equal((await ask(`POST /sandboxes/${id}/connect`)).status, 201)
  })

  test('is undone the older way too', async () => {
    const id = await create()
    await ask(`POST /sandboxes/${id}/pause`)
    const resumed = await ask(`POST /sandboxes/${id}/resume`, { body: { timeout: 60, autoPause: false } })
    assert.equal(resumed.status, 201)
    assert.equal((await ask(`POST /sandboxes/${id}/resume`)).status, 409)
  })

  test('with its memory, and a cold boot', async () => {
    const id = await create()
    const pid = provider.calls.length
    await ask(`POST /sandboxes/${id}/pause`)
    const { status } = await ask(`POST /v2/sandboxes/${id}/connect`, { body: { memory: false } })
    assert.equal(status, 201)
    assert.deepEqual(
      provider.calls.slice(pid).filter((call) => /^(?:pause|stop|start|resume) /.test(call)),
      [`pause ${id}`, `stop ${id}`, `start ${id}`],
    )
    await ask(`POST /v2/sandboxes/${id}/connect`, { body: { memory: false } })
    assert.equal(engineState(id), 'running')
  })

  test('does not keep it from being killed', async () => {
    for (const body of [{ memory: true }, { memory: false }]) {
      const id = await create()
      await ask(`POST /sandboxes/${id}/pause`, { body })
      assert.equal((await ask(`DELETE /sandboxes/${id}`)).status, 204)
      assert.equal((await ask(`GET /sandboxes/${id}`)).status, 404)
      assert.equal((await ask(`POST /sandboxes/${id}/pause`)).status, 404)
      assert.equal((await ask(`POST /sandboxes/${id}/connect`)).status, 404)
    }
  })

  test('shows in lists, where that is asked for', async () => {
    const running = await create()
    const paused = await create()
    const stopped = await create()
    await ask(`POST /sandboxes/${paused}/pause`)
    await ask(`POST /sandboxes/${stopped}/pause`, { body: { memory: false } })
    assert.deepEqual(await sandboxesIn('?state=running'), [running])
    assert.deepEqual(new Set(await sandboxesIn('?state=paused')), new Set([paused, stopped]))
    assert.equal((await sandboxesIn('?state=running,paused')).length, 3)
    assert.equal((await sandboxesIn('?state=running&state=paused')).length, 3)
    assert.equal((await sandboxesIn('')).length, 3)
    const older = (await ask('GET /sandboxes')).body as unknown as Body[]
    assert.deepEqual(
      older.map((one) => one['sandboxID']),
      [running],
    )
    assert.deepEqual((await ask(`GET /sandboxes/${paused}/metrics`)).body, [])
    assert.equal((await ask(`POST /sandboxes/${paused}/timeout`, { body: { timeout: 9 } })).status, 404)
  })

  test('that cannot be is refused, and the sandbox runs on', async () => {
    const id = await create()
    provider.fail('pause', { code: 'unsupported', times: 1 })
    const { status, body } = await ask(`POST /sandboxes/${id}/pause`)
    assert.equal(status, 400)
    assert.match(body.message ?? '', /without memory/)
    assert.equal((await info(id))['state'], 'running')
  })
})

describe('the end of its time', () => {
  test('is told as it was asked for', async () => {
    for (const [body, lifecycle] of [
      [{}, { autoResume: false, onTimeout: 'kill' }],
      [{ autoPause: true }, { autoResume: false, onTimeout: 'pause' }],
      [
        { autoPause: true, autoResume: { enabled: true } },
        { autoResume: true, onTimeout: 'pause' },
      ],
      [
        { autoPause: true, autoPauseMemory: false },
        { autoResume: false, onTimeout: 'pause' },
      ],
    ] as const)
      assert.deepEqual((await info(await create({ body })))['lifecycle'], lifecycle)
  })

  test('is a pause where that was asked for', async () => {
    const frozen = await create({ body: { timeout: 5, autoPause: true } })
    const stopped = await create({ body: { timeout: 5, autoPause: true, autoPauseMemory: false } })
    const killed = await create({ body: { timeout: 5 } })
    await clock.advance(20_000)
    assert.deepEqual([engineState(frozen), engineState(stopped)], ['paused', 'stopped'])
    assert.equal((await ask(`GET /sandboxes/${killed}`)).status, 404)
    for (const id of [frozen, stopped]) assert.equal((await ask(`POST /sandboxes/${id}/connect`)).status, 201)
  })
})

describe('snapshots', () => {
  test('are taken, listed, used as templates and removed', async () => {
    const id = await create()
    provider.inside(engine.get(id).id).files.set('/a', Buffer.from('kept'))
    const named = await ask(`POST /sandboxes/${id}/snapshots`, { body: { name: 'mine' } })
    assert.equal(named.status, 201)
    assert.deepEqual(named.body['names'], ['mine'])
    const plain = await ask(`POST /sandboxes/${id}/snapshots`, { body: {} })
    assert.deepEqual(plain.body['names'], [])
    for (const templateID of ['mine', 'mine:default', named.body['snapshotID'], plain.body['snapshotID']]) {
      const made = await create({ body: { templateID } })
      assert.equal(provider.inside(engine.get(made).id).files.get('/a')?.toString(), 'kept')
    }
    const made = await info(await create({ body: { templateID: 'mine' } }))
    assert.equal(made['templateID'], named.body['snapshotID'])
    assert.equal((await ask('GET /templates/aliases/mine')).body['templateID'], named.body['snapshotID'])
    assert.equal((await ask('DELETE /templates/mine:default')).status, 204)
    assert.equal((await ask(`DELETE /templates/${plain.body['snapshotID']}`)).status, 204)
    const gone = await ask(`DELETE /templates/${plain.body['snapshotID']}`)
    assert.deepEqual([gone.status, gone.body.code], [404, 404])
    const unknown = await ask('POST /v2/sandboxes', { body: { templateID: 'mine' } })
    assert.deepEqual([unknown.status, unknown.body.code], [404, 404])
  })

  test('are listed in pages and narrowed', async () => {
    const [one, two] = [await create(), await create()]
    const ids: unknown[] = []
    for (const [id, name] of [
      [one, 'a'],
      [one, 'b'],
      [two, 'c'],
    ])
      ids.push((await ask(`POST /sandboxes/${id}/snapshots`, { body: { name } })).body['snapshotID'])
    const list = async (query: string): Promise<{ ids: unknown[]; next: string | null }> => {
      const { body, headers } = await ask(`GET /snapshots${query}`)
      return {
        ids: (body as unknown as Body[]).map((snapshot) => snapshot['snapshotID']),
        next: headers.get('x-next-token'),
      }
    }
    assert.deepEqual(new Set((await list('')).ids), new Set(ids))
    assert.deepEqual((await list(`?sandboxID=${two}`)).ids, [ids[2]])
    assert.deepEqual((await list('?name=b:default')).ids, [ids[1]])
    assert.deepEqual((await list(`?name=${ids[0]}`)).ids, [ids[0]])
    assert.deepEqual((await list('?name=other')).ids, [])
    const first = await list('?limit=2')
    const second = await list(`?limit=2&nextToken=${first.next}`)
    assert.deepEqual(new Set([...first.ids, ...second.ids]), new Set(ids))
    assert.equal(second.next, null)
    for (const nextToken of ['x', Buffer.from('1-../..').toString('base64url')])
      assert.equal((await ask(`GET /snapshots?nextToken=${nextToken}`)).status, 400)
  })

  test('of somebody else are not there', async () => {
    const id = await create()
    const { body } = await ask(`POST /sandboxes/${id}/snapshots`, { body: { name: 'mine' } })
    assert.deepEqual((await ask('GET /snapshots', { owner: 'two' })).body, [])
    for (const ref of ['mine', body['snapshotID']]) {
      assert.equal((await ask(`DELETE /templates/${ref}`, { owner: 'two' })).status, 404)
      const made = await ask('POST /v2/sandboxes', { owner: 'two', body: { templateID: ref } })
      assert.equal(made.status, 404)
    }
  })
})

describe('fork', () => {
  test('makes copies with their own time, and the same metadata', async () => {
    const id = await create({ body: { metadata: { team: 'web' }, timeout: 900 } })
    provider.inside(engine.get(id).id).files.set('/a', Buffer.from('kept'))
    const { status, body } = await ask(`POST /sandboxes/${id}/fork`, { body: { count: 2, timeout: 60 } })
    assert.equal(status, 201)
    const forks = (body as unknown as { sandbox: Body }[]).map(({ sandbox }) => String(sandbox['sandboxID']))
    assert.equal(new Set(forks).size, 2)
    for (const fork of forks) {
      assert.equal(await endOf(fork), 60)
      assert.deepEqual((await info(fork))['metadata'], { team: 'web' })
      assert.equal((await info(fork))['templateID'], 'base')
      assert.equal(provider.inside(engine.get(fork).id).files.get('/a')?.toString(), 'kept')
    }
    assert.equal(await endOf(id), 900)
    const one = (await ask(`POST /sandboxes/${id}/fork`)).body as unknown as Body[]
    assert.equal(one.length, 1)
  })

  test('tells of each what went wrong', async () => {
    const id = await create()
    provider.fail('create', { code: 'resource_exhausted', times: 1 })
    const { status, body } = await ask(`POST /sandboxes/${id}/fork`, { body: { count: 2 } })
    assert.equal(status, 201)
    const results = body as unknown as { sandbox?: Body; error?: Body }[]
    assert.equal(results.filter(({ sandbox }) => sandbox).length, 1)
    assert.equal(results.find(({ error }) => error)?.error?.['code'], 429)
    assert.equal((await ask(`POST /sandboxes/${id}/fork`, { body: { count: 0 } })).status, 400)
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
    'POST /sandboxes/:id/pause',
    'POST /sandboxes/:id/fork',
    'POST /sandboxes/:id/snapshots',
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
