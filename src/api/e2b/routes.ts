/**
 * E2B's control plane, with both versions of its paths: only translates requests into calls of the engine.
 */
import { type Context, Hono } from 'hono'
import { AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Log } from '../../telemetry/log.ts'
import type { Clock } from '../../util/clock.ts'
import { type Random, randomWord } from '../../util/random.ts'
import type { SandboxTokens } from '../door/sandbox-tokens.ts'
import { retryAfter } from '../http/error-response.ts'
import { readJsonBody } from '../http/json-body.ts'
import { principalOf } from '../principal-of.ts'
import { parseInput } from '../schema/parse.ts'
import type { TcpAddressView } from '../schema/server.ts'
import { sandboxDomain } from './domain.ts'
import { type E2bError, e2bError } from './error-response.ts'
import { filtered, pageOf } from './list.ts'
import { logEntries, logsView } from './logs.ts'
import { takeMetric } from './metrics.ts'
import { toNetworkRequest } from './network.ts'
import { MCP_TEMPLATE, noMcpGateway, toCreateRequest, ttlMs } from './new-sandbox.ts'
import { pauseWithMemory } from './pause.ts'
import * as schema from './schema.ts'
import { findSnapshot, snapshotsOf } from './snapshots.ts'
import { type E2bState, e2bStateOf } from './state.ts'
import { type Template, templateOfSnapshot, templateOfTemplate, withoutTag } from './template.ts'
import { e2bTemplateRoutes, type TemplateRouteParts } from './templates/routes.ts'
import { BASE_FOUND, BASE_TEMPLATE } from './templates/sandbox-from.ts'
import { unknownTemplate } from './templates/templates.ts'
import { UNSUPPORTED_ROUTES, unsupportedRoute } from './unsupported.ts'
import { createdView, detailView, listedView, snapshotInfo, templateView } from './view.ts'
import { e2bVolumeRoutes } from './volumes.ts'
import { wakeUp } from './wake.ts'

export interface E2bParts {
  readonly engine: Engine
  readonly tokens: SandboxTokens
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** Domains whose subdomains are sandboxes, besides localhost. */
  readonly domains: readonly string[]
  /** Builds templates. Without it there are `base` and snapshots. */
  readonly templates?: Pick<TemplateRouteParts, 'templates' | 'files'> | undefined
  tcpAddress(): TcpAddressView | undefined
}

export function e2bRoutes(parts: E2bParts): Hono {
  const { engine, tokens } = parts
  const routes = new Hono()
  const failure = (c: Context, thrown: unknown): E2bError => {
    const incident = randomWord(parts.random, 12)
    const error = e2bError(thrown, incident)
    if (error.code === 500) parts.log.error('request failed', { incident, path: c.req.path, error: thrown })
    return error
  }
  routes.onError((thrown, c) => {
    const body = failure(c, thrown)
    const wait = retryAfter(thrown)
    if (wait !== undefined) c.header('retry-after', wait)
    return c.json(body, body.code as 500)
  })

  const accessOf = (c: Context): { tokens: SandboxTokens; domain: string | null } => ({
    tokens,
    domain: sandboxDomain(c.req.header('host'), { domains: parts.domains, tcp: parts.tcpAddress() }),
  })
  const body = (c: Context): Promise<unknown> => readJsonBody(c)

  routes.on('POST', ['/sandboxes', '/v2/sandboxes'], async (c) => {
    const who = principalOf(c)
    const asked = parseInput(schema.newSandbox, await body(c))
    const template = await templateFor(parts, asked.templateID, who)
    const request = toCreateRequest(asked, who, template)
    const requestKey = parseInput(schema.requestKey, c.req.header('idempotency-key'))
    const created = await engine.sandboxes.create({ ...request, requestKey }, who)
    if (template.record) parts.templates?.templates.spawned(template.record)
    return c.json(createdView(created, accessOf(c)), 201)
  })

  const connect = async (c: Context): Promise<Response> => {
    const { timeout, memory } = parseInput(schema.connectSandbox, await body(c))
    const request = { ttlMs: ttlMs(timeout), memory: memory ?? true }
    const { sandbox, wasPaused } = await wakeUp(engine, living(engine, c).id, principalOf(c), request)
    return c.json(createdView(sandbox, accessOf(c)), wasPaused ? 201 : 200)
  }
  routes.on('POST', ['/sandboxes/:id/connect', '/v2/sandboxes/:id/connect'], connect)

  /** The older way to resume a paused sandbox. */
  routes.post('/sandboxes/:id/resume', (c) => {
    const sandbox = living(engine, c)
    if (e2bStateOf(sandbox) === 'running') throw already(sandbox, 'running')
    return connect(c)
  })

  routes.post('/sandboxes/:id/pause', async (c) => {
    const { memory } = parseInput(schema.pauseSandbox, await body(c))
    const sandbox = living(engine, c)
    if (e2bStateOf(sandbox) === 'paused') throw already(sandbox, 'paused')
    if (memory === false) await engine.sandboxes.stop(sandbox.id, principalOf(c))
    else await pauseWithMemory(engine, sandbox.id, principalOf(c)).catch(withoutMemoryHint)
    return c.body(null, 204)
  })

  routes.post('/sandboxes/:id/fork', async (c) => {
    const { count, timeout } = parseInput(schema.forkBody, await body(c))
    const { id, labels } = living(engine, c)
    const request = { labels, lifetime: { ttlMs: ttlMs(timeout) }, ...(count != null && { count }) }
    const forked = await engine.sandboxes.fork(id, request, principalOf(c))
    const view = (one: (typeof forked)[number]): object =>
      'sandbox' in one ? { sandbox: createdView(one.sandbox, accessOf(c)) } : { error: failure(c, one.error) }
    return c.json(forked.map(view), 201)
  })

  routes.post('/sandboxes/:id/snapshots', async (c) => {
    const { name } = parseInput(schema.snapshotSandbox, await body(c))
    const asked = name ? { name: withoutTag(name) } : {}
    return c.json(
      snapshotInfo(await engine.snapshots.create(living(engine, c).id, asked, principalOf(c))),
      201,
    )
  })

  routes.get('/snapshots', (c) => {
    const query = parseInput(schema.snapshotsQuery, c.req.query())
    const { snapshots, next } = snapshotsOf(engine.snapshots.list(principalOf(c)), query)
    if (next !== undefined) c.header('x-next-token', next)
    return c.json(snapshots.map(snapshotInfo))
  })

  /** A snapshot is a template; the SDKs remove both by this route. `tags` has a route of its own. */
  routes.delete('/templates/:id{(?!tags$).+}', async (c) => {
    const who = principalOf(c)
    const ref = withoutTag(c.req.param('id'))
    const snapshot = findSnapshot(engine, ref, who)
    if (snapshot) await engine.snapshots.remove(snapshot.id, who)
    else if (parts.templates) await parts.templates.templates.remove(parts.templates.templates.own(ref, who))
    else throw unknownTemplate(ref)
    return c.body(null, 204)
  })

  // Must come before the routes with an id in this position.
  routes.get('/sandboxes/metrics', async (c) => {
    const who = principalOf(c)
    const { sandbox_ids } = parseInput(schema.manyMetricsQuery, {
      sandbox_ids: c.req.queries('sandbox_ids')?.join(',') ?? '',
    })
    const found = engine.sandboxes
      .list({ labels: {}, all: false }, who)
      .filter(({ id, state }) => state === 'running' && sandbox_ids.includes(id))
    const metrics = await Promise.all(found.map((one) => takeMetric(parts, one, who)))
    return c.json({ sandboxes: Object.fromEntries(found.map(({ id }, i) => [id, metrics[i]])) })
  })

  routes.get('/sandboxes/:id/metrics', async (c) => {
    const { start, end } = parseInput(schema.metricsQuery, c.req.query())
    const sandbox = living(engine, c)
    if (sandbox.state !== 'running') return c.json([])
    const metric = await takeMetric(parts, sandbox, principalOf(c))
    const isWanted = (start ?? 0) <= metric.timestampUnix && metric.timestampUnix <= (end ?? Infinity)
    return c.json(isWanted ? [metric] : [])
  })

  routes.get('/sandboxes/:id/logs', (c) => c.json(logsView(logsOf(engine, c))))
  routes.get('/v2/sandboxes/:id/logs', (c) => c.json({ logs: logsOf(engine, c) }))

  routes.get('/sandboxes', (c) => {
    const query = parseInput(schema.listQuery, { metadata: c.req.query('metadata'), state: 'running' })
    return c.json(
      filtered(engine.sandboxes.list({ labels: {}, all: false }, principalOf(c)), query).map(listedView),
    )
  })

  routes.get('/v2/sandboxes', (c) => {
    const query = parseInput(schema.listQuery, {
      ...c.req.query(),
      state: c.req.queries('state')?.join(','),
    })
    const { items, next } = pageOf(engine.sandboxes.list({ labels: {}, all: false }, principalOf(c)), query)
    if (next !== undefined) c.header('x-next-token', next)
    return c.json(items.map(listedView))
  })

  routes.get('/sandboxes/:id', (c) => c.json(detailView(living(engine, c), accessOf(c))))

  routes.delete('/sandboxes/:id', async (c) => {
    await engine.sandboxes.destroy(living(engine, c).id, principalOf(c))
    return c.body(null, 204)
  })

  routes.put('/sandboxes/:id/network', async (c) => {
    const { allow_internet_access, ...network } = parseInput(schema.updateNetwork, await body(c))
    const who = principalOf(c)
    if (network.maskRequestHost) throw onlyAtCreate('network.maskRequestHost')
    const wish = toNetworkRequest({ allow_internet_access, network }, who)
    await engine.networks.replace(running(engine, c).id, wish, who)
    return c.body(null, 204)
  })

  routes.post('/sandboxes/:id/timeout', async (c) => {
    const { timeout } = parseInput(schema.sandboxTimeout, await body(c))
    const { id } = running(engine, c)
    if (timeout === 0) await engine.sandboxes.expire(id, principalOf(c))
    else await engine.sandboxes.extend(id, ttlMs(timeout), principalOf(c))
    return c.body(null, 204)
  })

  routes.post('/sandboxes/:id/refreshes', async (c) => {
    const { duration } = parseInput(schema.sandboxRefresh, await body(c))
    const { id } = running(engine, c)
    await engine.sandboxes.extend(id, ttlMs(duration ?? REFRESH_S), principalOf(c), { onlyLonger: true })
    return c.body(null, 204)
  })

  routes.get('/templates/aliases/:name', async (c, next) => {
    const name = withoutTag(c.req.param('name'))
    if (name === BASE_TEMPLATE) return c.json({ templateID: BASE_TEMPLATE, public: true })
    const found = findSnapshot(engine, name, principalOf(c))
    if (!found && parts.templates) return await next()
    if (!found) throw unknownTemplate(name)
    return c.json({ templateID: found.id, public: false })
  })
  if (parts.templates) {
    const signer = { sign: tokens.sign, now: () => parts.clock.now() }
    routes.route('/', e2bTemplateRoutes({ ...parts.templates, signer, clock: parts.clock }))
  } else routes.on('GET', ['/templates', '/v2/templates'], (c) => c.json([templateView(BASE_TEMPLATE)]))

  routes.route('/', e2bVolumeRoutes(parts))

  for (const [method, path, what] of UNSUPPORTED_ROUTES) {
    const refuse = (): never => {
      throw unsupportedRoute(what)
    }
    if (method === 'ALL') routes.all(path, refuse)
    else routes.on(method, path, refuse)
  }
  return routes
}

const REFRESH_S = 60

/** A snapshot, or a template; `base` by default. Throws `not_found` if there is none. */
async function templateFor(
  { engine, templates }: E2bParts,
  asked: string | null | undefined,
  who: Principal,
): Promise<Template> {
  const ref = asked || BASE_TEMPLATE
  const snapshot = findSnapshot(engine, withoutTag(ref), who)
  if (snapshot) return templateOfSnapshot(snapshot)
  const isBase = withoutTag(ref) === BASE_TEMPLATE
  const found = isBase ? BASE_FOUND : await templates?.templates.resolve(ref, who)
  if (found) return templateOfTemplate(found)
  throw withoutTag(ref) === MCP_TEMPLATE ? noMcpGateway() : unknownTemplate(ref)
}

/** The caller's sandbox with this id, running or paused. */
function living(engine: Engine, c: Context): Sandbox {
  const sandbox = find(engine, c)
  if (sandbox && e2bStateOf(sandbox)) return sandbox
  throw unknown(c)
}

function already({ id }: Sandbox, state: E2bState): AgentPodError {
  const message = `Sandbox ${id} is already ${state}`
  return new AgentPodError({ code: 'conflict', reason: 'sandbox.state', message })
}

function onlyAtCreate(option: string): AgentPodError {
  return invalid('e2b.only_at_create', `${option} can only be set when a sandbox is created`)
}

/** SECURITY: a pause never silently drops memory: where it cannot be kept, the pause fails with this hint. */
function withoutMemoryHint(error: unknown): never {
  if (!isAgentPodError(error, 'unsupported')) throw error
  const { code, reason, message } = error
  throw new AgentPodError({
    code,
    reason,
    message,
    hint: 'a pause without memory (`memory: false`) keeps the files',
    cause: error,
  })
}

/** The caller's running sandbox with this id. One that ended or belongs to another owner is not found. */
function running(engine: Engine, c: Context): Sandbox {
  const sandbox = find(engine, c)
  if (sandbox?.state === 'running') return sandbox
  throw unknown(c)
}

/** Also for ended sandboxes, whose logs are kept. */
function logsOf(engine: Engine, c: Context): ReturnType<typeof logEntries> {
  const query = parseInput(schema.logsQuery, c.req.query())
  const sandbox = find(engine, c)
  if (!sandbox) throw unknown(c)
  return logEntries(engine.events.list(sandbox.id, 0, principalOf(c)), query)
}

function find(engine: Engine, c: Context): Sandbox | undefined {
  try {
    return engine.sandboxes.get(c.req.param('id') ?? '', principalOf(c))
  } catch (error) {
    // A malformed id counts as an unknown sandbox.
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
