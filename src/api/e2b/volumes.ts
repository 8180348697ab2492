/** E2B's volumes: their records, and their files. */
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { type Context, Hono } from 'hono'
import type { Volume } from '../../core/volume/volume.ts'
import type { Engine } from '../../engine/engine.ts'
import { ExchangeLimit } from '../../engine/exchange-limit.ts'
import type { Clock } from '../../util/clock.ts'
import type { SandboxTokens } from '../door/sandbox-tokens.ts'
import { limitDownloadIdle, limitUploadIdle } from '../http/idle-timeout.ts'
import { readJsonBody } from '../http/json-body.ts'
import { sendStream } from '../http/send-stream.ts'
import { principalOf } from '../principal-of.ts'
import { parseInput } from '../schema/parse.ts'
import * as schema from './schema.ts'
import { VolumeFiles } from './volume-files.ts'

/** SECURITY: CP-16. Each file in transfer keeps a connection and a process inside. */
const MOST_TRANSFERS = 32

export interface VolumeParts {
  readonly engine: Engine
  readonly tokens: SandboxTokens
  readonly clock: Clock
}

export function e2bVolumeRoutes({ engine, tokens, clock }: VolumeParts): Hono {
  const { volumes } = engine
  const routes = new Hono()
  const slots = new ExchangeLimit(MOST_TRANSFERS, 'files of volumes')
  const withToken = ({ id, name }: Volume): object => ({ volumeID: id, name, token: tokens.volumeToken(id) })

  routes.post('/volumes', async (c) => {
    const { name } = parseInput(schema.newVolume, await readJsonBody(c))
    return c.json(withToken((await volumes.create({ name }, principalOf(c))).volume), 201)
  })
  routes.get('/volumes', async (c) => {
    const found = await volumes.list(principalOf(c))
    return c.json(found.map(({ volume: { id, name } }) => ({ volumeID: id, name })))
  })
  routes.get('/volumes/:id', (c) => c.json(withToken(volumes.find(c.req.param('id'), principalOf(c)))))
  routes.delete('/volumes/:id', async (c) => {
    await volumes.remove(c.req.param('id'), principalOf(c))
    return c.body(null, 204)
  })

  const filesOf = async (c: Context): Promise<VolumeFiles> =>
    new VolumeFiles(await volumes.access(c.req.param('id') ?? '', principalOf(c)), c.req.raw.signal)

  routes.get('/volumecontent/:id/dir', async (c) => {
    const { path, depth } = parseInput(schema.volumeListQuery, c.req.query())
    return c.json(await (await filesOf(c)).list(path, depth))
  })
  routes.post('/volumecontent/:id/dir', async (c) => {
    const { path, ...o } = parseInput(schema.volumeEntryQuery, c.req.query())
    return c.json(await (await filesOf(c)).makeDirectory(path, o), 201)
  })
  routes.get('/volumecontent/:id/path', async (c) => {
    const { path } = parseInput(schema.volumePathQuery, c.req.query())
    return c.json(await (await filesOf(c)).stat(path))
  })
  routes.patch('/volumecontent/:id/path', async (c) => {
    const { path } = parseInput(schema.volumePathQuery, c.req.query())
    const o = parseInput(schema.volumeMetadata, await readJsonBody(c))
    return c.json(
      await (await filesOf(c)).change(path, {
        uid: o.uid ?? undefined,
        gid: o.gid ?? undefined,
        mode: o.mode ?? undefined,
      }),
    )
  })
  routes.delete('/volumecontent/:id/path', async (c) => {
    const { path } = parseInput(schema.volumePathQuery, c.req.query())
    await (await filesOf(c)).remove(path)
    return c.body(null, 204)
  })

  routes.get('/volumecontent/:id/file', async (c) => {
    const { path } = parseInput(schema.volumePathQuery, c.req.query())
    const leave = slots.enter(principalOf(c).owner)
    try {
      const { content, sizeBytes } = await (await filesOf(c)).read(path)
      content.once('close', leave)
      return sendStream(c, limitDownloadIdle(content, clock), {
        'content-type': 'application/octet-stream',
        ...(sizeBytes !== undefined && { 'content-length': String(sizeBytes) }),
      })
    } catch (error) {
      leave()
      throw error
    }
  })
  routes.put('/volumecontent/:id/file', async (c) => {
    const { path, ...o } = parseInput(schema.volumeEntryQuery, c.req.query())
    const leave = slots.enter(principalOf(c).owner)
    const { body } = c.req.raw
    const source = body ? Readable.fromWeb(body as ReadableStream) : Readable.from([])
    // The reader reports its errors; without this listener they would be uncaught.
    source.on('error', () => undefined)
    try {
      return c.json(await (await filesOf(c)).write(path, limitUploadIdle(source, clock), o), 201)
    } finally {
      source.destroy()
      leave()
    }
  })
  return routes
}
