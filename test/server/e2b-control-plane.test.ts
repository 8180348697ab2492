// E2B's control plane over a real engine on a fake provider: what each path answers, and to whom.

import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { Hono } from 'hono'
import { sandboxTokens } from '../../src/api/door/sandbox-tokens.ts'
import { e2bRoutes } from '../../src/api/e2b/routes.ts'
import { UNSUPPORTED_ROUTES } from '../../src/api/e2b/unsupported.ts'
import { setPrincipal } from '../../src/api/principal-of.ts'
import { LOCAL } from '../../src/core/principal.ts'
import type { Engine } from '../../src/engine/engine.ts'
import { EngineFixture } from '../../src/engine/testing/engine-fixture.ts'
import { silentLog } from '../../src/telemetry/log.ts'
import type { FakeClock } from '../../src/testing/fake-clock.ts'
import type { FakeProvider } from '../../src/testing/fake-provider.ts'
import { SeededRandom } from '../../src/testing/seeded-random.ts'
import { asPrincipal } from '../support/as-principal.ts'

let fixture: EngineFixture
let clock: FakeClock
let provider: FakeProvider
let engine: Engine
let routes: Hono
before(async () => {
  fixture = new EngineFixture()
  engine = await fixture.open()
  clock = fixture.clock
  provider = fixture.provider
  routes = e2bRoutes({
    engine,
    tokens: sandboxTokens('secret'),
    clock,
    random: new SeededRandom(4),
    log: silentLog,
    domains: [],
    tcpAddress: () => ({ host: '127.0.0.1', port: 8080, isTls: false }),
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
  for (const { id } of engine.snapshots.list(LOCAL)) await engine.snapshots.remove(id, LOCAL)
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
  test('E2B create answers with everything a client needs, on both paths', async () => {
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

  test('E2B create gives a traffic token where ports are private', async () => {
    const { body } = await ask('POST /sandboxes', { body: { network: { allowPublicTraffic: false } } })
    assert.match(String(body['trafficAccessToken']), /^[0-9a-f]{64}$/)
    assert.notEqual(body['trafficAccessToken'], body['envdAccessToken'])
  })

  test('E2B create twice with one idempotency key makes one sandbox', async () => {
    const headers = { 'idempotency-key': 'a-key' }
    assert.equal(await create({ headers }), await create({ headers }))
    assert.notEqual(await create({ headers, owner: 'two' }), await create({ headers }))
  })

  test('E2B create refuses what it cannot do, in E2B’s form', async () => {
    const { status, body } = await ask('POST /v2/sandboxes', { body: { mcp: { exa: {} } } })
    assert.equal(status, 400)
    assert.deepEqual(Object.keys(body).sort(), ['code', 'message'])
    assert.equal(body.code, 400)
    assert.equal((await ask('POST /v2/sandboxes', { body: { timeout: 31 * 86_400 } })).status, 400)
    assert.equal((await ask('POST /v2/sandboxes', { body: { templateID: 'other' } })).status, 404)
    assert.equal(engine.usage.count, 0)
  })
})

describe('time', () => {
  test('E2B connect only ever extends the time', async () => {
    const id = await create({ body: { timeout: 600 } })
    assert.equal((await ask(`POST /v2/sandboxes/${id}/connect`, { body: { timeout: 60 } })).status, 200)
    assert.equal(await endOf(id), 600)
    await ask(`POST /sandboxes/${id}/connect`, { body: { timeout: 900 } })
    assert.equal(await endOf(id), 900)
  })
  test('E2B timeout extends and shortens the time', async () => {
    const id = await create({ body: { timeout: 600 } })
    const { status, headers } = await ask(`POST /sandboxes/${id}/timeout`, { body: { timeout: 60 } })
    assert.equal(status, 204)
    assert.equal(headers.get('content-type'), null)
    assert.equal(await endOf(id), 60)
    await ask(`POST /sandboxes/${id}/timeout`, { body: { timeout: 700 } })
    assert.equal(await endOf(id), 700)
  })
  test('E2B timeout of zero ends the sandbox', async () => {
    const id = await create()
    assert.equal((await ask(`POST /sandboxes/${id}/timeout`, { body: { timeout: 0 } })).status, 204)
    assert.equal((await ask(`GET /sandboxes/${id}`)).status, 404)
  })
  test('E2B refreshes extend the time', async () => {
    const id = await create({ body: { timeout: 30 } })
    assert.equal((await ask(`POST /sandboxes/${id}/refreshes`, { body: { duration: 100 } })).status, 204)
    assert.equal(await endOf(id), 100)
    await ask(`POST /sandboxes/${id}/refreshes`)
    assert.equal(await endOf(id), 100)
  })
  test('E2B resume of a running sandbox is refused', async () => {
    const id = await create()
    const { status, body } = await ask(`POST /sandboxes/${id}/resume`, { body: { timeout: 60 } })
    assert.equal(status, 409)
    assert.equal(body.code, 409)
  })
})

const info = async (id: string): Promise<Body> => (await ask(`GET /sandboxes/${id}`)).body
const engineState = (id: string): string => engine.sandboxes.get(id, LOCAL).state
const sandboxesIn = async (query: string): Promise<unknown[]> =>
  ((await ask(`GET /v2/sandboxes${query}`)).body as unknown as Body[]).map((one) => one['sandboxID'])

describe('pause', () => {
  for (const [kind, body, state, mode] of [
    ['with its memory', {}, 'paused', 'full'],
    ['with its memory, as is said', { memory: true }, 'paused', 'full'],
    ['without its memory', { memory: false }, 'stopped', 'filesystem'],
  ] as const) {
    test(`E2B pause and resume: ${kind}`, async () => {
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

  test('E2B pause needs no body', async () => {
    const id = await create()
    assert.equal((await ask(`POST /sandboxes/${id}/pause`)).status, 204)
    assert.equal((await ask(`POST /sandboxes/${id}/connect`)).status, 201)
  })

  test('E2B pause is undone by the older resume call too', async () => {
    const id = await create()
    await ask(`POST /sandboxes/${id}/pause`)
    const resumed = await ask(`POST /sandboxes/${id}/resume`, { body: { timeout: 60, autoPause: false } })
    assert.equal(resumed.status, 201)
    assert.equal((await ask(`POST /sandboxes/${id}/resume`)).status, 409)
  })

  test('E2B pause with memory, and a cold boot', async () => {
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

  test('a paused E2B sandbox can be killed', async () => {
    for (const body of [{ memory: true }, { memory: false }]) {
      const id = await create()
      await ask(`POST /sandboxes/${id}/pause`, { body })
      assert.equal((await ask(`DELETE /sandboxes/${id}`)).status, 204)
      assert.equal((await ask(`GET /sandboxes/${id}`)).status, 404)
      assert.equal((await ask(`POST /sandboxes/${id}/pause`)).status, 404)
      assert.equal((await ask(`POST /sandboxes/${id}/connect`)).status, 404)
    }
  })

  test('paused sandboxes are in E2B lists on request', async () => {
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

  test('an E2B pause that is unsupported is refused, and the sandbox keeps running', async () => {
    const id = await create()
    provider.fail('pause', { code: 'unsupported', times: 1 })
    const { status, body } = await ask(`POST /sandboxes/${id}/pause`)
    assert.equal(status, 400)
    assert.match(body.message ?? '', /without memory/)
    assert.equal((await info(id))['state'], 'running')
  })
})

describe('the end of the time', () => {
  test('E2B answers show the requested end of the time', async () => {
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

  test('an E2B sandbox is paused at the end of its time, as requested', async () => {
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
  test('E2B snapshots are taken, listed, used as templates and removed', async () => {
    const id = await create()
    provider.inside(engine.sandboxes.get(id, LOCAL).id).files.set('/a', Buffer.from('kept'))
    const named = await ask(`POST /sandboxes/${id}/snapshots`, { body: { name: 'mine' } })
    assert.equal(named.status, 201)
    assert.deepEqual(named.body['names'], ['mine'])
    const plain = await ask(`POST /sandboxes/${id}/snapshots`, { body: {} })
    assert.deepEqual(plain.body['names'], [])
    for (const templateID of ['mine', 'mine:default', named.body['snapshotID'], plain.body['snapshotID']]) {
      const made = await create({ body: { templateID } })
      assert.equal(provider.inside(engine.sandboxes.get(made, LOCAL).id).files.get('/a')?.toString(), 'kept')
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

  test('E2B snapshots are listed in pages and filtered', async () => {
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

  test('E2B snapshots of another owner are not found', async () => {
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
  test('an E2B fork makes copies with their own time, and the same metadata', async () => {
    const id = await create({ body: { metadata: { team: 'web' }, timeout: 900 } })
    provider.inside(engine.sandboxes.get(id, LOCAL).id).files.set('/a', Buffer.from('kept'))
    const { status, body } = await ask(`POST /sandboxes/${id}/fork`, { body: { count: 2, timeout: 60 } })
    assert.equal(status, 201)
    const forks = (body as unknown as { sandbox: Body }[]).map(({ sandbox }) => String(sandbox['sandboxID']))
    assert.equal(new Set(forks).size, 2)
    for (const fork of forks) {
      assert.equal(await endOf(fork), 60)
      assert.deepEqual((await info(fork))['metadata'], { team: 'web' })
      assert.equal((await info(fork))['templateID'], 'base')
      assert.equal(provider.inside(engine.sandboxes.get(fork, LOCAL).id).files.get('/a')?.toString(), 'kept')
    }
    assert.equal(await endOf(id), 900)
    const one = (await ask(`POST /sandboxes/${id}/fork`)).body as unknown as Body[]
    assert.equal(one.length, 1)
  })

  test('an E2B fork says for each copy what went wrong', async () => {
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

describe('another owner’s sandbox', () => {
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
    test(`another owner’s sandbox is not found: ${path}`, async () => {
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
  test('another owner’s sandbox is in no list but the admin’s', async () => {
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

describe('invalid ids', () => {
  for (const id of ['%00', 'A', '-', 'x'.repeat(5000), '__proto__', '%F0%9F%92%A9', '%zz']) {
    test(`the invalid E2B id ${id.slice(0, 20)} is not found`, async () => {
      const { status, body } = await ask(`GET /sandboxes/${id}/logs`)
      assert.equal(status, 404)
      assert.ok(body.code === 404 || Object.keys(body).length === 0)
    })
  }
})

test('E2B lists name the next page in a header', async () => {
  const ids = [await create(), await create(), await create()]
  const first = await ask('GET /v2/sandboxes?limit=2')
  const token = first.headers.get('x-next-token') ?? ''
  const second = await ask(`GET /v2/sandboxes?limit=2&nextToken=${encodeURIComponent(token)}`)
  assert.equal(second.headers.get('x-next-token'), null)
  const seen = [...(first.body as unknown as Body[]), ...(second.body as unknown as Body[])]
  assert.deepEqual(seen.map((one) => String(one['sandboxID'])).sort(), ids.sort())
})

test('E2B logs show what happened, also of an ended sandbox', async () => {
  const id = await create()
  await ask(`DELETE /sandboxes/${id}`)
  const { body } = await ask(`GET /v2/sandboxes/${id}/logs?direction=backward&limit=1`)
  const [entry] = body['logs'] as Body[]
  assert.equal(entry?.['message'], 'sandbox destroyed')
  const older = await ask(`GET /sandboxes/${id}/logs`)
  assert.deepEqual(Object.keys(older.body).sort(), ['logEntries', 'logs'])
  assert.equal((await ask(`GET /v2/sandboxes/${id}/logs?level=error`)).body['logs']?.toString(), '')
})

test('an E2B metric is of the present moment', async () => {
  const id = await create()
  const asked = ask(`GET /sandboxes/${id}/metrics`)
  await clock.advance(1000)
  const [metric] = (await asked).body as unknown as Body[]
  assert.equal(metric?.['cpuCount'], 2)
  assert.equal(typeof metric?.['memUsed'], 'number')
})

describe('templates', () => {
  test('E2B has the template base', async () => {
    const all = (await ask('GET /templates')).body as unknown as Body[]
    assert.deepEqual(
      all.map((one) => one['templateID']),
      ['base'],
    )
    assert.equal((await ask('GET /templates/aliases/base')).status, 200)
    assert.equal((await ask('GET /templates/aliases/other')).status, 404)
  })
})

describe('calls that are not implemented', () => {
  for (const [method, path, what] of UNSUPPORTED_ROUTES) {
    const line = `${method === 'ALL' ? 'POST' : method} ${path.replaceAll(/:id|\*/g, 'abcd')}`
    test(`E2B call that is not implemented: ${line}`, async () => {
      const { status, body } = await ask(line, line.startsWith('GET') ? {} : { body: {} })
      assert.equal(status, 501)
      assert.equal(body.code, 501)
      assert.ok(body.message?.includes(what))
    })
  }
})

test('an E2B body that is not JSON is refused', async () => {
  const init = { method: 'POST', body: '{"templateID":' }
  const response = await routes.request('/v2/sandboxes', init, asPrincipal(LOCAL))
  assert.equal(response.status, 400)
  assert.deepEqual(Object.keys((await response.json()) as Body).sort(), ['code', 'message'])
})
