/** The control plane `/v1`: only translates HTTP into calls of the engine. */
import { Hono } from 'hono'
import { matchedRoutes } from 'hono/route'
import { stream } from 'hono/streaming'
import { BASES, DEFAULT_BASE } from '../core/environment.ts'
import { AgentPodError } from '../core/error.ts'
import type { Engine } from '../engine/engine.ts'
import type { Keys } from '../engine/keys.ts'
import type { Runs } from '../runs/runs.ts'
import type { Log } from '../telemetry/log.ts'
import type { Metrics } from '../telemetry/metrics.ts'
import type { Clock } from '../util/clock.ts'
import { type Random, randomWord } from '../util/random.ts'
import type { OneTimeCodes } from './door/one-time-codes.ts'
import type { SandboxTokens } from './door/sandbox-tokens.ts'
import { e2bError, isE2bPath } from './e2b/error-response.ts'
import { type E2bParts, e2bRoutes } from './e2b/routes.ts'
import { errorBody, retryAfter } from './http/error-response.ts'
import { readJsonBody } from './http/json-body.ts'
import { parseQuery } from './http/query.ts'
import type { Rate } from './http/rate-limit.ts'
import { traceOfContext } from './http/trace.ts'
import { adminOnly, markedPrincipal, needPrincipal, principalOf } from './principal-of.ts'
import { aboutRoutes } from './routes/about.ts'
import { type BuildParts, buildRoutes } from './routes/builds.ts'
import { groupRoutes } from './routes/groups.ts'
import { imageRoutes } from './routes/images.ts'
import { keyRoutes } from './routes/keys.ts'
import { networkRoutes } from './routes/networks.ts'
import { portRoutes } from './routes/ports.ts'
import { providerRoutes } from './routes/providers.ts'
import { runRoutes } from './routes/runs.ts'
import { sandboxRoutes } from './routes/sandboxes.ts'
import { secretRoutes } from './routes/secrets.ts'
import { snapshotRoutes } from './routes/snapshots.ts'
import { volumeRoutes } from './routes/volumes.ts'
import { parseInput } from './schema/parse.ts'
import { prepareBase } from './schema/query.ts'
import { listenRequest, type TcpAddressView } from './schema/server.ts'

export interface AppParts {
  readonly engine: Engine
  readonly version: string
  readonly build?: string | undefined
  readonly pid: number
  readonly startedAt: number
  readonly log: Log
  readonly random: Random
  readonly keys: Keys
  readonly tokens: SandboxTokens
  readonly clock: Clock
  /** Domains whose subdomains are sandboxes, besides localhost. */
  readonly domains: readonly string[]
  readonly codes: OneTimeCodes
  /** Builds environments. Without it there are no routes for builds. */
  readonly builds?: Omit<BuildParts, 'engine' | 'clock' | 'random' | 'log'> | undefined
  /** Templates of E2B's API. Without them there is only its base. */
  readonly templates?: E2bParts['templates']
  /** Runs of agents. Without it there are no routes for runs. */
  readonly runs?: Runs | undefined
  readonly metrics: Metrics
  /** The rate limit of a key, reported with its usage. */
  readonly rate: Rate
  /** Opens the TCP listener if it is not open yet, and returns its address. */
  openTcp(port: number): Promise<TcpAddressView>
  /** The address of the TCP listener; undefined while it is closed. */
  tcpAddress(): TcpAddressView | undefined
  /** Stops the server after the answer is sent. */
  stop(): void
}

export function createApp(parts: AppParts): Hono {
  const { engine } = parts
  const app = new Hono()

  app.onError((thrown, c) => {
    const incident = randomWord(parts.random, 12)
    const { status, body, error } = errorBody(thrown, incident)
    if (error.code === 'internal') parts.log.error('request failed', { incident, path: c.req.path, error })
    return c.json(body, status as 500)
  })
  app.notFound((c) => {
    const error = new AgentPodError({
      code: 'not_found',
      reason: 'route.unknown',
      message: `no such route: ${c.req.method} ${c.req.path}`,
    })
    return c.json(isE2bPath(c.req.path) ? e2bError(error) : errorBody(error).body, 404)
  })

  app.use(async (c, next) => {
    await next()
    const trace = traceOfContext(c)
    if (trace) {
      // The first match that is not middleware handled it. Its pattern is the label, so there are few label
      // values.
      trace.route = matchedRoutes(c).find(({ path }) => !path.endsWith('*'))?.path ?? 'unknown'
      const who = markedPrincipal(c)
      if (who) trace.who = who.owner
      trace.error = c.error
    }
    const wait = c.error && retryAfter(c.error)
    if (wait !== undefined) c.header('retry-after', wait)
  })
  app.use(needPrincipal)
  app.route('/', aboutRoutes(parts))
  app.route('/v1/sandboxes', sandboxRoutes(parts))
  app.route('/v1/sandboxes', portRoutes(parts))
  app.route('/v1/sandboxes', networkRoutes(engine))
  app.route('/v1/providers', providerRoutes(engine))
  app.route('/v1/secrets', secretRoutes(engine))
  app.route('/v1/snapshots', snapshotRoutes(parts))
  app.route('/v1/images', imageRoutes(parts))
  app.route('/v1/volumes', volumeRoutes(engine))
  app.route('/v1/groups', groupRoutes(engine))
  app.route('/v1/keys', keyRoutes(parts.keys))
  if (parts.builds) app.route('/v1/builds', buildRoutes({ ...parts, ...parts.builds }))
  if (parts.runs) app.route('/v1/runs', runRoutes(parts.runs))
  app.route('/', e2bRoutes(parts))
  app.use('/v1/server/*', adminOnly)

  app.get('/v1/server', async (c) =>
    c.json({
      version: parts.version,
      build: parts.build ?? null,
      pid: parts.pid,
      startedAt: new Date(parts.startedAt).toISOString(),
      living: engine.usage.count,
      tcp: parts.tcpAddress() ?? null,
      provider: engine.providers.defaultName,
      isRoot: process.getuid?.() === 0,
      capabilities: await engine.providers.capabilities(),
    }),
  )
  app.get('/v1/server/checks', async (c) => c.json(await engine.providers.diagnose()))
  app.post('/v1/server/listen', async (c) => {
    const { port } = parseInput(listenRequest, await readJsonBody(c))
    return c.json(await parts.openTcp(port))
  })
  app.post('/v1/server/stop', (c) => {
    parts.stop()
    return c.json({ stopping: true })
  })

  app.post('/v1/server/clear', async (c) => {
    await parts.runs?.clear()
    await engine.destroyAll()
    parts.stop()
    return c.json({ stopping: true })
  })

  // Building a base may take a minute, so the answer streams its progress as JSON lines.
  app.post('/v1/bases/:base', (c) => {
    const named = c.req.param('base')
    const base = BASES.find((known) => known === named)
    if (!base && named !== DEFAULT_BASE)
      throw new AgentPodError({
        code: 'not_found',
        reason: 'base.unknown',
        message: `unknown base; use ${BASES.join(', ')} or ${DEFAULT_BASE}`,
      })
    const { kit, image, provider } = parseQuery(prepareBase, c)
    c.header('content-type', 'application/x-ndjson')
    return stream(c, async (out) => {
      const say = (line: object): Promise<unknown> => out.write(`${JSON.stringify(line)}\n`)
      try {
        await engine.providers.prepareBase(
          { name: base, kit, image, isAnonymous: !principalOf(c).isAdmin },
          (progress) => void say({ progress }),
          { provider, owner: principalOf(c).owner },
        )
        await say({ ready: true })
      } catch (thrown) {
        await say(errorBody(thrown).body)
      }
    })
  })

  return app
}
