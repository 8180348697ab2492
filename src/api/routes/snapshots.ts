/** Snapshots and their archives. Archives are streamed and never held in memory as a whole. */
import { Readable } from 'node:stream'
import type { ReadableStream } from 'node:stream/web'
import { type Context, Hono } from 'hono'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { Engine } from '../../engine/engine.ts'
import { ExchangeLimit } from '../../engine/exchange-limit.ts'
import type { Clock } from '../../util/clock.ts'
import { limitDownloadIdle, limitUploadIdle } from '../http/idle-timeout.ts'
import { parseQuery } from '../http/query.ts'
import { sendStream } from '../http/send-stream.ts'
import { principalOf } from '../principal-of.ts'
import { splitLabel } from '../schema/label.ts'
import { importSnapshotQuery, LONGEST_PAGE, listSnapshots } from '../schema/query.ts'
import { snapshotView } from '../view/sandbox-view.ts'
import { snapshotPage } from '../view/snapshot-page.ts'
import { NEXT_HEADER } from './sandboxes.ts'

/** SECURITY: CP-16. Each archive in transfer needs as much disk space as it is long. */
const MOST_ARCHIVES = 4
const ARCHIVE = 'application/octet-stream'

export interface SnapshotParts {
  readonly engine: Engine
  readonly clock: Clock
}

export function snapshotRoutes({ engine, clock }: SnapshotParts): Hono {
  const routes = new Hono()
  const slots = new ExchangeLimit(MOST_ARCHIVES, 'snapshot archives')

  routes.get('/', (c) => {
    const { label = [], limit = LONGEST_PAGE, sandbox, ...rest } = parseQuery(listSnapshots, c)
    const { snapshots, next } = snapshotPage(engine.snapshots.list(principalOf(c)), {
      ...rest,
      sandboxId: sandbox === undefined ? undefined : sandboxId(engine, sandbox, c),
      labels: Object.fromEntries(label.map(splitLabel)),
      limit,
    })
    if (next !== undefined) c.header(NEXT_HEADER, next)
    return c.json(snapshots.map(snapshotView))
  })

  routes.get('/:ref', (c) => c.json(snapshotView(engine.snapshots.get(c.req.param('ref'), principalOf(c)))))

  routes.delete('/:ref', async (c) => {
    const snapshot = engine.snapshots.get(c.req.param('ref'), principalOf(c))
    await engine.snapshots.remove(snapshot.id, principalOf(c))
    return c.json(snapshotView(snapshot))
  })

  routes.get('/:ref/archive', async (c) => {
    const who = principalOf(c)
    const { id, name } = engine.snapshots.get(c.req.param('ref'), who)
    const headers = {
      'content-type': ARCHIVE,
      'content-disposition': `attachment; filename="${name ?? id}.agentpod-snapshot"`,
    }
    // A HEAD request must not pack an archive that is never read.
    if (c.req.raw.method === 'HEAD') return c.body(null, 200, headers)
    const leave = slots.enter(who.owner)
    try {
      const archive = await engine.snapshots.export(id, who)
      archive.once('close', leave)
      return sendStream(c, limitDownloadIdle(archive, clock), headers)
    } catch (error) {
      leave()
      throw error
    }
  })

  routes.post('/archive', async (c) => {
    const { name, provider } = parseQuery(importSnapshotQuery, c)
    const who = principalOf(c)
    const leave = slots.enter(who.owner)
    try {
      const snapshot = await take(c, clock, (archive) =>
        engine.snapshots.import(archive, { name, provider }, who),
      )
      return c.json(snapshotView(snapshot), 201)
    } finally {
      leave()
    }
  })

  return routes
}

/** Passes the body on as it arrives. A sender that disconnects is reported as canceled. */
async function take(
  c: Context,
  clock: Clock,
  work: (archive: Readable) => Promise<Snapshot>,
): Promise<Snapshot> {
  const { body } = c.req.raw
  const source = body ? Readable.fromWeb(body as ReadableStream) : Readable.from([])
  // The reader reports its errors; without this listener they would be uncaught.
  source.on('error', () => undefined)
  try {
    return await work(limitUploadIdle(source, clock))
  } catch (error) {
    if (isAgentPodError(error) || !c.req.raw.signal.aborted) throw error
    throw new AgentPodError({
      code: 'canceled',
      reason: 'body.cut',
      message: 'the archive is incomplete: the client disconnected',
      cause: error,
    })
  } finally {
    source.destroy()
  }
}

/** The id of a sandbox by its name. A sandbox that is no longer known may still have snapshots. */
function sandboxId(engine: Engine, ref: string, c: Context): string {
  try {
    return engine.sandboxes.get(ref, principalOf(c)).id
  } catch (error) {
    if (isAgentPodError(error, 'not_found')) return ref
    throw error
  }
}
