/** What is stored and what comes, until its subject has ended. */
import type { Clock } from './clock.ts'
import type { News } from './news.ts'

export interface FollowNews<T> {
  readonly news: News
  readonly subject: string
  readonly clock: Clock
  /** The last event that the follower has. */
  readonly after: number
  /** After so long without an event, an empty batch says that the stream lives. */
  readonly keepaliveMs: number
  readonly signal: AbortSignal
  read(after: number): readonly T[]
  isEnded(): boolean
}

/**
 * INVARIANT: the store is read after the subscription stands, and only ever from the last event given: so there is no gap and no event twice.
 * Nothing is queued: a slow follower reads later, from the store.
 */
export async function* followNews<T extends { readonly seq: number }>(
  o: FollowNews<T>,
): AsyncGenerator<readonly T[]> {
  let last = o.after
  let isNew = true
  let wake = (): void => undefined
  const look = (): void => {
    isNew = true
    wake()
  }
  const unsubscribe = o.news.subscribe(o.subject, look)
  o.signal.addEventListener('abort', look)
  try {
    while (!o.signal.aborted) {
      isNew = false
      const isEnded = o.isEnded()
      const events = o.read(last)
      last = events.at(-1)?.seq ?? last
      if (events.length > 0) yield events
      else if (isEnded) return
      else if (!isNew) {
        const { promise, resolve } = Promise.withResolvers<void>()
        const cancel = o.clock.after(o.keepaliveMs, resolve)
        wake = resolve
        await promise
        cancel()
        if (!isNew && !o.signal.aborted) yield []
      }
    }
  } finally {
    unsubscribe()
    o.signal.removeEventListener('abort', look)
  }
}
