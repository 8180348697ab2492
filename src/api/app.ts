/** The control plane, `/v1`: translates HTTP into calls of the engine and nothing else. */
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
import type { Access } from './access.ts'
import { readJson } from './body.ts'
import { e2bError, isE2bPath } from './e2b/error-response.ts'
import { e2bRoutes } from './e2b/routes.ts'
import { errorBody, retryAfter } from './error-response.ts'
import type { OneTimeCodes } from './one-time-codes.ts'
import { adminOnly, principalOf } from './principal-of.ts'
import { parseQuery } from './query.ts'
import type { Rate } from './rate-limit.ts'
import { aboutRoutes } from './routes/about.ts'
import { type BuildParts, buildRoutes } from './routes/builds.ts'
import { keyRoutes } from './routes/keys.ts'
import { networkRoutes } from './routes/networks.ts'
import { portRoutes } from './routes/ports.ts'
import { providerRoutes } from './routes/providers.ts'
import { runRoutes } from './routes/runs.ts'
import { sandboxRoutes } from './routes/sandboxes.ts'
import { secretRoutes } from './routes/secrets.ts'
import { snapshotRoutes } from './routes/snapshots.ts'
import { parseInput } from './schema/parse.ts'
import { prepareBase } from './schema/query.ts'
import { listenRequest, type TcpAddressView } from './schema/server.ts'
import { traceOfContext } from './trace.ts'

export interface AppParts {
  readonly engine: Engine
  readonly version: string
  readonly build?: string | undefined
  readonly pid: number
  readonly startedAt: number
  readonly log: Log
  readonly random: Random
  readonly keys: Keys
  readonly access: Access
  readonly clock: Clock
  /** Domains whose subdomains are sandboxes, besides localhost. */
  readonly domains: readonly string[]
  readonly codes: OneTimeCodes
  /** Makes environments; there are none where it is left out. */
  readonly builds?: Omit<BuildParts, 'engine' | 'clock' | 'random' | 'log'> | undefined
  /** Agents at work; there are none where it is left out. */
  readonly runs?: Runs | undefined
  readonly metrics: Metrics
  /** What a key may ask a second, as its usage tells. */
  readonly rate: Rate
  /** Opens the TCP listener where it is not open yet, and answers where it is. */
  openTcp(port: number): Promise<TcpAddressView>
  /** Where it is open. */
  tcpAddress(): TcpAddressView | undefined
  /** Ends the server after the answer is out. */
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
      message: `there is no ${c.req.method} ${c.req.path}`,
    })
    return c.json(isE2bPath(c.req.path) ? e2bError(error) : errorBody(error).body, 404)
  })

  app.use(async (c, next) => {
    await next()
    const trace = traceOfContext(c)
    if (trace) {
      // The first that is no middleware took it: patterns only, so that a label's values are a short list.
      trace.route = matchedRoutes(c).find(({ path }) => !path.endsWith('*'))?.path ?? 'unknown'
      trace.who = principalOf(c).owner
      trace.error = c.error
    }
    const wait = c.error && retryAfter(c.error)
    if (wait !== undefined) c.header('retry-after', wait)
  })
  app.route('/', aboutRoutes(parts))
  app.route('/v1/sandboxes', sandboxRoutes(parts))
  app.route('/v1/sandboxes', portRoutes(parts))
  app.route('/v1/sandboxes', networkRoutes(engine))
  app.route('/v1/providers', providerRoutes(engine))
  app.route('/v1/secrets', secretRoutes(engine))
  app.route('/v1/snapshots', snapshotRoutes(parts))
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
      living: engine.livingCount,
      tcp: parts.tcpAddress() ?? null,
      provider: engine.defaultProvider,
      isRoot: process.getuid?.() === 0,
      capabilities: await engine.capabilities(),
    }),
  )
  app.get('/v1/server/checks', async (c) => c.json(await engine.diagnose()))
  app.post('/v1/server/listen', async (c) => {
    const { port } = parseInput(listenRequest, await readJson(c.req.raw))
    return c.json(await parts.openTcp(port))
  })
  app.post('/v1/server/stop', (c) => {
    parts.stop()
    return c.json({ stopping: true })
  })

  app.post('/v1/server/clear', async (c) => {
    await parts.runs?.clear()
    await engine.clear()
    parts.stop()
    return c.json({ stopping: true })
  })

  // A base may take a minute to build; lines of JSON tell how far it is.
  app.post('/v1/bases/:base', (c) => {
    const named = c.req.param('base')
    const base = BASES.find((known) => known === named)
    if (!base && named !== DEFAULT_BASE)
      throw new AgentPodError({
        code: 'not_found',
        reason: 'base.unknown',
        message: `the bases are ${BASES.join(', ')}, or ${DEFAULT_BASE}`,
      })
    const { kit, image, provider } = parseQuery(prepareBase, c)
    c.header('content-type', 'application/x-ndjson')
    return stream(c, async (out) => {
      const say = (line: object): Promise<unknown> => out.write(`${JSON.stringify(line)}\n`)
      try {
        await engine.prepare({ name: base, kit, image }, (progress) => void say({ progress }), provider)
        await say({ ready: true })
      } catch (thrown) {
        await say(errorBody(thrown).body)
      }
    })
  })

  return app
}
