/** E2B's control plane, both generations of its paths: translates into calls of the engine and nothing else. */
import { type Context, Hono } from 'hono'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Log } from '../../telemetry/log.ts'
import type { Clock } from '../../util/clock.ts'
import { type Random, randomWord } from '../../util/random.ts'
import type { Access } from '../access.ts'
import { readJson } from '../body.ts'
import { retryAfter } from '../error-response.ts'
import { principalOf } from '../principal-of.ts'
import { parseInput } from '../schema/parse.ts'
import type { TcpAddressView } from '../schema/server.ts'
import { sandboxDomain } from './domain.ts'
import { e2bError } from './error-response.ts'
import { LATER, later } from './later.ts'
import { filtered, pageOf } from './list.ts'
import { logEntries, logsView } from './logs.ts'
import { takeMetric } from './metrics.ts'
import { createRequest, ttlMs } from './new-sandbox.ts'
import * as schema from './schema.ts'
import { BASE_TEMPLATE, environmentOf } from './template.ts'
import { createdView, detailView, listedView, templateView } from './view.ts'

export interface E2bParts {
  readonly engine: Engine
  readonly access: Access
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** Domains whose subdomains are sandboxes, besides localhost. */
  readonly domains: readonly string[]
  tcpAddress(): TcpAddressView | undefined
}

export function e2bRoutes(parts: E2bParts): Hono {
  const { engine, access } = parts
  const routes = new Hono()
  routes.onError((thrown, c) => {
    const incident = randomWord(parts.random, 12)
    const body = e2bError(thrown, incident)
    if (body.code === 500) parts.log.error('request failed', { incident, path: c.req.path, error: thrown })
    const wait = retryAfter(thrown)
    if (wait !== undefined) c.header('retry-after', wait)
    return c.json(body, body.code as 500)
  })

  const way = (c: Context): { access: Access; domain: string | null } => ({
    access,
    domain: sandboxDomain(c.req.header('host'), { domains: parts.domains, tcp: parts.tcpAddress() }),
  })
  const body = (c: Context): Promise<unknown> => readJson(c.req.raw)

  routes.on('POST', ['/sandboxes', '/v2/sandboxes'], async (c) => {
    const request = createRequest(parseInput(schema.newSandbox, await body(c)), principalOf(c).owner)
    const requestKey = parseInput(schema.requestKey, c.req.header('idempotency-key'))
    return c.json(createdView(await engine.create({ ...request, requestKey }), way(c)), 201)
  })

  routes.on('POST', ['/sandboxes/:id/connect', '/v2/sandboxes/:id/connect'], async (c) => {
    const { timeout } = parseInput(schema.connectSandbox, await body(c))
    const { id } = running(engine, c)
    const sandbox = await engine.extend(id, ttlMs(timeout), principalOf(c), { onlyLonger: true })
    return c.json(createdView(sandbox, way(c)))
  })

  /** The older way to wake one that is paused. Nothing is, so what lives is in the wrong state for it. */
  routes.post('/sandboxes/:id/resume', (c) => {
    const { id } = running(engine, c)
    throw new AgentPodError({
      code: 'conflict',
      reason: 'sandbox.state',
      message: `Sandbox ${id} is already running`,
    })
  })

  // Before the routes with an id in this place.
  routes.get('/sandboxes/metrics', async (c) => {
    const who = principalOf(c)
    const { sandbox_ids } = parseInput(schema.manyMetricsQuery, {
      sandbox_ids: c.req.queries('sandbox_ids')?.join(',') ?? '',
    })
    const found = engine
      .list({ labels: {}, all: false }, who)
      .filter(({ id, state }) => state === 'running' && sandbox_ids.includes(id))
    const metrics = await Promise.all(found.map((one) => takeMetric(parts, one, who)))
    return c.json({ sandboxes: Object.fromEntries(found.map(({ id }, i) => [id, metrics[i]])) })
  })

  routes.get('/sandboxes/:id/metrics', async (c) => {
    const { start, end } = parseInput(schema.metricsQuery, c.req.query())
    const metric = await takeMetric(parts, running(engine, c), principalOf(c))
    const isWanted = (start ?? 0) <= metric.timestampUnix && metric.timestampUnix <= (end ?? Infinity)
    return c.json(isWanted ? [metric] : [])
  })

  routes.get('/sandboxes/:id/logs', (c) => c.json(logsView(logsOf(engine, c))))
  routes.get('/v2/sandboxes/:id/logs', (c) => c.json({ logs: logsOf(engine, c) }))

  routes.get('/sandboxes', (c) => {
    const query = parseInput(schema.listQuery, { metadata: c.req.query('metadata') })
    return c.json(filtered(engine.list({ labels: {}, all: false }, principalOf(c)), query).map(listedView))
  })

  routes.get('/v2/sandboxes', (c) => {
    const query = parseInput(schema.listQuery, {
      ...c.req.query(),
      state: c.req.queries('state')?.join(','),
    })
    const { items, next } = pageOf(engine.list({ labels: {}, all: false }, principalOf(c)), query)
    if (next !== undefined) c.header('x-next-token', next)
    return c.json(items.map(listedView))
  })

  routes.get('/sandboxes/:id', (c) => c.json(detailView(running(engine, c), way(c))))

  routes.delete('/sandboxes/:id', async (c) => {
    await engine.destroy(running(engine, c).id, principalOf(c))
    return c.body(null, 204)
  })

  routes.post('/sandboxes/:id/timeout', async (c) => {
    const { timeout } = parseInput(schema.sandboxTimeout, await body(c))
    const { id } = running(engine, c)
    if (timeout === 0) await engine.destroy(id, principalOf(c))
    else await engine.extend(id, ttlMs(timeout), principalOf(c))
    return c.body(null, 204)
  })

  routes.post('/sandboxes/:id/refreshes', async (c) => {
    const { duration } = parseInput(schema.sandboxRefresh, await body(c))
    const { id } = running(engine, c)
    await engine.extend(id, ttlMs(duration ?? REFRESH_S), principalOf(c), { onlyLonger: true })
    return c.body(null, 204)
  })

  routes.on('GET', ['/templates', '/v2/templates'], (c) => c.json([templateView()]))
  routes.get('/templates/aliases/:name', (c) => {
    environmentOf(c.req.param('name'))
    return c.json({ templateID: BASE_TEMPLATE, public: true })
  })

  for (const [method, path, what] of LATER) {
    const refuse = (): never => {
      throw later(what)
    }
    if (method === 'ALL') routes.all(path, refuse)
    else routes.on(method, path, refuse)
  }
  return routes
}

const REFRESH_S = 60

/** The caller's running sandbox of that id. One that has ended, or never was, or is somebody else's, is not found. */
function running(engine: Engine, c: Context): Sandbox {
  const sandbox = find(engine, c)
  if (sandbox?.state === 'running') return sandbox
  throw unknown(c)
}

/** Ended ones too: their logs stay. */
function logsOf(engine: Engine, c: Context): ReturnType<typeof logEntries> {
  const query = parseInput(schema.logsQuery, c.req.query())
  const sandbox = find(engine, c)
  if (!sandbox) throw unknown(c)
  return logEntries(engine.events(sandbox.id, 0, principalOf(c)), query)
}

function find(engine: Engine, c: Context): Sandbox | undefined {
  try {
    return engine.get(c.req.param('id') ?? '', principalOf(c))
  } catch (error) {
    // An id that cannot be one is a sandbox that is not there.
    if (isAgentPodError(error, 'not_found') || isAgentPodError(error, 'invalid_argument')) return undefined
    throw error
  }
}

function unknown(c: Context): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'sandbox.unknown',
    message: `sandbox ${JSON.stringify(c.req.param('id') ?? '')} not found`,
  })
}
