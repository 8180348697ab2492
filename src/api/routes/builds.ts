/** Builds recipes into layers, and streams the progress as JSON lines. */
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { type Context, Hono } from 'hono'
import { stream } from 'hono/streaming'
import type { BuildEvent, BuildJob } from '../../build/build-request.ts'
import type { Builder } from '../../build/builder.ts'
import type { DockerfileBuilder } from '../../build/dockerfile/dockerfile-builder.ts'
import type { DockerfileRequest } from '../../build/dockerfile/dockerfile-request.ts'
import type { LintWarning } from '../../build/dockerfile/graph.ts'
import type { InputFiles } from '../../build/input-files.ts'
import { type PackagePresets, withPresets } from '../../build/package-presets.ts'
import type { Toolchains } from '../../build/toolchains.ts'
import { AgentPodError } from '../../core/error.ts'
import type { Engine } from '../../engine/engine.ts'
import { ExchangeLimit } from '../../engine/exchange-limit.ts'
import type { Log } from '../../telemetry/log.ts'
import type { Clock } from '../../util/clock.ts'
import { type Random, randomWord } from '../../util/random.ts'
import { errorBody } from '../http/error-response.ts'
import { limitUploadIdle } from '../http/idle-timeout.ts'
import { readJsonBody } from '../http/json-body.ts'
import { parseQuery } from '../http/query.ts'
import { adminOnly, principalOf } from '../principal-of.ts'
import {
  type BuildEventView,
  buildRequest,
  dockerfileBuildRequest,
  type LayerView,
  pruneRequest,
} from '../schema/build.ts'
import { parseInput } from '../schema/parse.ts'
import { toolchainsOf } from '../schema/query.ts'

export interface BuildParts {
  readonly engine: Engine
  readonly builder: Builder
  /** Left out if the programs that it needs are not built. */
  readonly dockerfiles?: DockerfileBuilder | undefined
  readonly files: InputFiles
  readonly toolchains: Toolchains
  readonly presets: PackagePresets
  readonly arch: string
  readonly suite: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
}

/** SECURITY: CP-16. Each build needs a sandbox and disk space for the files of its steps. */
const MOST_BUILDS = 4
const MOST_UPLOADS = 4
const UNREAD_MS = 5 * 60_000

export function buildRoutes(parts: BuildParts): Hono {
  const { engine, builder, files, presets } = parts
  const routes = new Hono()
  const builds = new ExchangeLimit(MOST_BUILDS, 'builds')
  const uploads = new ExchangeLimit(MOST_UPLOADS, 'uploads')

  routes.post('/', async (c) => {
    const { recipe, project, provider, keepFailed, again } = parseInput(buildRequest, await readJsonBody(c))
    return streamed(c, async (o) => {
      const complete = await withPresets(recipe, presets)
      const result = await builder.build(complete, { ...o, project, provider, keepFailed, again })
      if (result.kind === 'needs') return { needs: [...result.files] }
      return { built: { digest: result.digest, base: result.base, sizeBytes: result.sizeBytes } }
    })
  })

  routes.post('/dockerfile', async (c) => {
    const { dockerfile, project, provider, keepFailed } = parseInput(
      dockerfileBuildRequest,
      await readJsonBody(c),
    )
    const { dockerfiles } = parts
    if (!dockerfiles) throw noDockerfiles()
    return streamed(c, async (o) => {
      const onWarnings = (warnings: readonly LintWarning[]): Promise<void> | undefined =>
        warnings.length > 0 ? o.say({ warnings: [...warnings] }) : undefined
      const { presets: named, ...request } = dockerfile
      const access = await Promise.all(named.map((name) => presets.get(name)))
      const network = [...request.network, ...access.flatMap(({ rules }) => rules)]
      const result = await dockerfiles.build({ ...request, network } as DockerfileRequest, {
        ...o,
        project,
        provider,
        keepFailed,
        onWarnings,
      })
      if (result.kind === 'needs') return { needs: [...result.files] }
      const { kind: _, ...built } = result
      return { built }
    })
  })

  /** A build whose events are lines; its last line is the answer or the error. */
  function streamed(
    c: Context,
    work: (
      o: Pick<BuildJob, 'who' | 'signal' | 'onEvent'> & { say(line: BuildEventView): Promise<void> },
    ) => Promise<BuildEventView>,
  ): Response {
    const who = principalOf(c)
    const leave = builds.enter(who.owner)
    c.header('content-type', 'application/x-ndjson')
    return stream(c, async (out) => {
      const gone = new AbortController()
      const left = Promise.withResolvers<void>()
      gone.signal.addEventListener('abort', () => left.resolve())
      out.onAbort(() => gone.abort())
      // SECURITY: CP-16. A client that does not read blocks the step, and counts as gone after a while.
      const say = async (line: BuildEventView): Promise<void> => {
        if (gone.signal.aborted) return
        const cancel = parts.clock.after(UNREAD_MS, () => gone.abort())
        await Promise.race([out.write(`${JSON.stringify(line)}\n`), left.promise])
        cancel()
      }
      try {
        await say(await work({ who, signal: gone.signal, say, onEvent: (event) => say(viewOf(event)) }))
      } catch (thrown) {
        const incident = randomWord(parts.random, 12)
        const { body, error } = errorBody(thrown, incident)
        if (error.code === 'internal') parts.log.error('a build failed', { incident, error })
        await say(body as BuildEventView)
      } finally {
        leave()
      }
    })
  }

  routes.post('/files/:digest', async (c) => {
    const leave = uploads.enter(principalOf(c).owner)
    const { body } = c.req.raw
    const source = body ? Readable.fromWeb(body as ReadableStream) : Readable.from([])
    source.on('error', () => undefined)
    try {
      await files.put(principalOf(c).owner, c.req.param('digest'), limitUploadIdle(source, parts.clock))
      return c.json({ digest: c.req.param('digest') }, 201)
    } catch (error) {
      if (!c.req.raw.signal.aborted) throw error
      throw new AgentPodError({
        code: 'canceled',
        reason: 'body.cut',
        message: 'the files are incomplete: the client disconnected',
        cause: error,
      })
    } finally {
      source.destroy()
      leave()
    }
  })

  routes.get('/toolchains', async (c) => {
    const { provider, host: isAsked } = parseQuery(toolchainsOf, c)
    const { host: hasHost } = await engine.providers.capabilities(provider)
    const host = hasHost && isAsked !== 'false' ? await parts.toolchains.ofHost() : []
    return c.json({ arch: parts.arch, suite: parts.suite, hasHost, host })
  })

  routes.get('/layers', adminOnly, (c) => {
    const inUse = engine.layers.inUse()
    return c.json(
      engine.layers.list().map(
        ({ id, layer, sizeBytes, createdAt }): LayerView => ({
          key: layer.key,
          parent: layer.parent,
          step: layer.step.name,
          title: layer.step.title,
          project: layer.project,
          base: layer.base.name,
          sizeBytes,
          createdAt: new Date(createdAt).toISOString(),
          usedAt: new Date(layer.usedAt).toISOString(),
          inUse: inUse.has(id),
        }),
      ),
    )
  })

  routes.post('/prune', adminOnly, async (c) => {
    const { keepBytes, dryRun } = parseInput(pruneRequest, await readJsonBody(c))
    return c.json(await builder.prune({ keepBytes, isDry: dryRun }))
  })

  return routes
}

function viewOf(event: BuildEvent): BuildEventView {
  switch (event.kind) {
    case 'progress':
      return { progress: event.text }
    case 'output':
      return { output: { name: event.name, data: event.data.toString('base64') } }
    case 'step': {
      const { kind: _, ...step } = event
      return { step }
    }
  }
}

function noDockerfiles(): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'dockerfile.programs',
    message: 'this server cannot build Dockerfiles: podimage and podfiles are missing',
    hint: 'scripts/build builds them',
  })
}
