/** Snapshots: what there is, and their archives, which pass through as they come and are never held whole. */
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { type Context, Hono } from 'hono'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { Engine } from '../../engine/engine.ts'
import type { Clock } from '../../util/clock.ts'
import { arriving, leaving } from '../patience.ts'
import { principalOf } from '../principal-of.ts'
import { parseQuery } from '../query.ts'
import { splitLabel } from '../schema/label.ts'
import { importSnapshot, LONGEST_PAGE, listSnapshots } from '../schema/query.ts'
import { Slots } from '../slots.ts'
import { snapshotPage } from '../snapshot-page.ts'
import { traceOfContext } from '../trace.ts'
import { snapshotView } from '../view.ts'
import { NEXT_HEADER } from './sandboxes.ts'

/** SECURITY: CP-16. Each archive on its way takes as much of the disk as it is long. */
const MOST_ARCHIVES = 4
const ARCHIVE = 'application/octet-stream'

export interface SnapshotParts {
  readonly engine: Engine
  readonly clock: Clock
}

export function snapshotRoutes({ engine, clock }: SnapshotParts): Hono {
  const routes = new Hono()
  const slots = new Slots(MOST_ARCHIVES, 'archives of snapshots')

  routes.get('/', (c) => {
    const { label = [], limit = LONGEST_PAGE, sandbox, ...rest } = parseQuery(listSnapshots, c)
    const { snapshots, next } = snapshotPage(engine.snapshots(principalOf(c)), {
      ...rest,
      sandboxId: sandbox === undefined ? undefined : sandboxId(engine, sandbox, c),
      labels: Object.fromEntries(label.map(splitLabel)),
      limit,
    })
    if (next !== undefined) c.header(NEXT_HEADER, next)
    return c.json(snapshots.map(snapshotView))
  })

  routes.get('/:ref', (c) => c.json(snapshotView(engine.getSnapshot(c.req.param('ref'), principalOf(c)))))

  routes.delete('/:ref', async (c) => {
    const snapshot = engine.getSnapshot(c.req.param('ref'), principalOf(c))
    await engine.removeSnapshot(snapshot.id, principalOf(c))
    return c.json(snapshotView(snapshot))
  })

  routes.get('/:ref/archive', async (c) => {
    const who = principalOf(c)
    const { id, name } = engine.getSnapshot(c.req.param('ref'), who)
    const headers = {
      'content-type': ARCHIVE,
      'content-disposition': `attachment; filename="${name ?? id}.agentpod-snapshot"`,
    }
    // Only looked at: nothing is packed that nobody reads.
    if (c.req.raw.method === 'HEAD') return c.body(null, 200, headers)
    const leave = slots.enter(who.owner)
    try {
      const archive = await engine.exportSnapshot(id, who)
      archive.once('close', leave)
      return send(c, leaving(archive, clock), headers)
    } catch (error) {
      leave()
      throw error
    }
  })

  routes.post('/archive', async (c) => {
    const { name, provider } = parseQuery(importSnapshot, c)
    const { owner } = principalOf(c)
    const leave = slots.enter(owner)
    try {
      const snapshot = await take(c, clock, (archive) =>
        engine.importSnapshot(archive, { owner, name, provider }),
      )
      return c.json(snapshotView(snapshot), 201)
    } finally {
      leave()
    }
  })

  return routes
}

/**
 * Straight to the connection: what stands between it and the routes ends a body that fails early as if it were whole. A stream that
 * fails is cut here, so that nobody takes it for the archive.
 */
function send(c: Context, archive: Readable, headers: Readonly<Record<string, string>>): Response {
  const { outgoing } = c.env as { readonly outgoing: ServerResponse }
  const trace = traceOfContext(c)
  outgoing.writeHead(200, headers)
  pipeline(archive, outgoing).catch((error: NodeJS.ErrnoException) => {
    // A reader that hangs up is no failure.
    if (trace && error.code !== 'ERR_STREAM_PREMATURE_CLOSE') trace.error = error
    archive.destroy()
    outgoing.destroy()
  })
  return RESPONSE_ALREADY_SENT
}

/** The body as it arrives. A sender that hangs up is not a failure of ours. */
async function take(
  c: Context,
  clock: Clock,
  work: (archive: Readable) => Promise<Snapshot>,
): Promise<Snapshot> {
  const { body } = c.req.raw
  const source = body ? Readable.fromWeb(body as ReadableStream) : Readable.from([])
  // Its error is told by whoever reads it; without a listener it would be nobody's.
  source.on('error', () => undefined)
  try {
    return await work(arriving(source, clock))
  } catch (error) {
    if (isAgentPodError(error) || !c.req.raw.signal.aborted) throw error
    throw new AgentPodError({
      code: 'canceled',
      reason: 'body.cut',
      message: 'the archive did not arrive whole',
      cause: error,
    })
  } finally {
    source.destroy()
  }
}

/** The id of a living sandbox by its name; what is known no more may still have snapshots. */
function sandboxId(engine: Engine, ref: string, c: Context): string {
  try {
    return engine.get(ref, principalOf(c)).id
  } catch (error) {
    if (isAgentPodError(error, 'not_found')) return ref
    throw error
  }
}
