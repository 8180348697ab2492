/**
 * Server-sent events, each with its sequence number as id, so that a client can continue where it stopped.
 */
import type { Context } from 'hono'
import { stream } from 'hono/streaming'
import { invalid } from '../../core/error.ts'
import type { EventType } from '../../core/event.ts'
import type { Engine } from '../../engine/engine.ts'
import { principalOf } from '../principal-of.ts'
import { eventView } from '../view/sandbox-view.ts'

const KEEPALIVE_MS = 15_000

export function streamSandboxEvents(
  c: Context,
  engine: Engine,
  { after, type }: { readonly after: number; readonly type?: EventType | undefined },
): Response {
  const from = lastEventId(c) ?? after
  const who = principalOf(c)
  return streamEvents(
    c,
    (o) => engine.events.follow(c.req.param('ref') ?? '', { after: from, type, ...o }, who),
    (event) => {
      const view = eventView(event)
      return { id: view.seq, event: view.type, data: view }
    },
  )
}

/**
 * Streams batches as events. `open` is called before the answer starts, so that its errors get their own
 * status.
 */
export function streamEvents<T>(
  c: Context,
  open: (o: { readonly keepaliveMs: number; readonly signal: AbortSignal }) => AsyncGenerator<readonly T[]>,
  tell: (one: T) => { readonly id: number; readonly event: string; readonly data: object },
): Response {
  const gone = new AbortController()
  const batches = open({ keepaliveMs: KEEPALIVE_MS, signal: gone.signal })
  c.header('content-type', 'text/event-stream')
  c.header('cache-control', 'no-store')
  c.header('x-accel-buffering', 'no')
  return stream(c, async (out) => {
    out.onAbort(() => gone.abort())
    // Headers are sent with the first bytes, so a comment tells the client at once that the stream is open.
    await out.write(': following\n\n')
    try {
      for await (const events of batches) {
        const text = events.map((one) => {
          const { id, event, data } = tell(one)
          return `id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`
        })
        // Waits until the client has read it; newer events stay in the store meanwhile.
        await out.write(text.join('') || ': alive\n\n')
      }
    } finally {
      gone.abort()
    }
  })
}

/** Sent by a browser's EventSource when it reconnects. */
export function lastEventId(c: Context): number | undefined {
  const text = c.req.header('last-event-id')
  if (text === undefined || text === '') return undefined
  if (!/^\d{1,15}$/.test(text)) throw invalid('events.last_id', 'Last-Event-ID must be a whole number')
  return Number(text)
}
