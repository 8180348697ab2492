/** Container images: pulling and pushing stream their progress as JSON lines. */
import { type Context, Hono } from 'hono'
import { stream } from 'hono/streaming'
import type { Engine } from '../../engine/engine.ts'
import { ExchangeLimit } from '../../engine/exchange-limit.ts'
import type { UsedImage } from '../../engine/images/image-operations.ts'
import type { Log } from '../../telemetry/log.ts'
import type { Clock } from '../../util/clock.ts'
import { type Random, randomWord } from '../../util/random.ts'
import { listAt } from '../../util/untrusted-json.ts'
import { errorBody } from '../http/error-response.ts'
import { limitDownloadIdle } from '../http/idle-timeout.ts'
import { readJsonBody } from '../http/json-body.ts'
import { parseQuery } from '../http/query.ts'
import { sendStream } from '../http/send-stream.ts'
import { adminOnly, principalOf } from '../principal-of.ts'
import {
  getFeature,
  type ImageEventView,
  type ImageView,
  packedSource,
  pullImage,
  pushImage,
} from '../schema/image.ts'
import { parseInput } from '../schema/parse.ts'
import { imagesOf, namedImage } from '../schema/query.ts'

export interface ImageRouteParts {
  readonly engine: Engine
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
}

/** SECURITY: CP-16. Each transfer needs a process, and disk space for the layers on their way. */
const MOST_TRANSFERS = 4

export function imageRoutes(parts: ImageRouteParts): Hono {
  const { engine, clock } = parts
  const routes = new Hono()
  const transfers = new ExchangeLimit(MOST_TRANSFERS, 'image transfers')

  routes.get('/', async (c) => c.json((await engine.images.list(parseQuery(imagesOf, c))).map(viewOf)))

  routes.get('/image', async (c) => {
    const { ref, provider } = parseQuery(namedImage, c)
    return c.json(viewOf(await engine.images.get(ref, { provider })))
  })

  // Every key uses the same images, so only an admin removes one.
  routes.delete('/image', adminOnly, async (c) => {
    const { ref, provider } = parseQuery(namedImage, c)
    return c.json(viewOf(await engine.images.remove(ref, { provider }, principalOf(c))))
  })

  routes.post('/pull', async (c) => {
    const { image, provider } = parseInput(pullImage, await readJsonBody(c))
    const who = principalOf(c)
    return answer(c, who.owner, async (o) => ({
      pulled: viewOf(await engine.images.pull(image, { ...o, provider }, who)),
    }))
  })

  routes.post('/feature', async (c) => {
    const { feature } = parseInput(getFeature, await readJsonBody(c))
    const who = principalOf(c)
    return answer(c, who.owner, async ({ signal }) => {
      const { archive, ...found } = await engine.images.feature(feature, { signal }, who)
      return { feature: { ...found, archive: archive.toString('base64') } }
    })
  })

  // SECURITY: IM-06. A push uses the credentials of the user who runs the server.
  routes.post('/push', adminOnly, async (c) => {
    const { source, image } = parseInput(pushImage, await readJsonBody(c))
    const who = principalOf(c)
    return answer(c, who.owner, async (o) => ({
      pushed: { image, ...(await engine.images.push(source, image, o, who)) },
    }))
  })

  routes.post('/layout', async (c) => {
    const { source } = parseInput(packedSource, await readJsonBody(c))
    const who = principalOf(c)
    const leave = transfers.enter(who.owner)
    try {
      const layout = await engine.images.layout(source, who)
      layout.once('close', leave)
      return sendStream(c, limitDownloadIdle(layout, clock), { 'content-type': 'application/x-tar' })
    } catch (error) {
      leave()
      throw error
    }
  })

  return routes

  function answer(
    c: Context,
    owner: string,
    work: (o: { signal: AbortSignal; onProgress(line: string): void }) => Promise<ImageEventView>,
  ): Response {
    const leave = transfers.enter(owner)
    c.header('content-type', 'application/x-ndjson')
    return stream(c, async (out) => {
      const gone = new AbortController()
      out.onAbort(() => gone.abort())
      const say = (line: ImageEventView): Promise<unknown> => out.write(`${JSON.stringify(line)}\n`)
      try {
        await say(await work({ signal: gone.signal, onProgress: (progress) => void say({ progress }) }))
      } catch (thrown) {
        const incident = randomWord(parts.random, 12)
        const { body, error } = errorBody(thrown, incident)
        if (error.code === 'internal') parts.log.error('a transfer of an image failed', { incident, error })
        await say(body as ImageEventView)
      } finally {
        leave()
      }
    })
  }
}

function entrypointOf({ config }: UsedImage): string[] {
  if (config === undefined) return []
  const words = listAt(JSON.parse(config), 'config', 'Entrypoint')
  return words.filter((word) => typeof word === 'string')
}

function viewOf(image: UsedImage): ImageView {
  const { ref, digest, manifestDigest, platform, sizeBytes, layers, usedBy, env } = image
  return {
    ref,
    digest,
    manifestDigest,
    platform,
    sizeBytes,
    layers: [...layers],
    user: image.user ?? null,
    workdir: image.workdir ?? null,
    variables: { ...env },
    command: [...(image.command ?? [])],
    entrypoint: entrypointOf(image),
    ports: [...(image.ports ?? [])],
    labels: { ...image.labels },
    pulledAt: new Date(image.pulledAt).toISOString(),
    usedAt: new Date(image.usedAt).toISOString(),
    usedBy: [...usedBy],
  }
}
