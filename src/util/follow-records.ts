/** Yields stored records and then new ones, until their subject has ended. */
import type { Clock } from './clock.ts'
import type { Notifier } from './notifier.ts'

export interface FollowRecords<T> {
  readonly notifier: Notifier
  readonly subject: string
  readonly clock: Clock
  /** The last record that the follower has received. */
  readonly after: number
  /** After this time without a record, an empty batch is yielded as keepalive. */
  readonly keepaliveMs: number
  readonly signal: AbortSignal
  read(after: number): readonly T[]
  isEnded(): boolean
}

/**
 * INVARIANT: the store is read after subscribing, and always from the last record yielded, so no record is
 * missed or repeated. Nothing is queued: a slow follower reads later, from the store.
 */
export async function* followRecords<T extends { readonly seq: number }>(
  o: FollowRecords<T>,
): AsyncGenerator<readonly T[]> {
  let last = o.after
  let isNew = true
  let wake = (): void => undefined
  const look = (): void => {
    isNew = true
    wake()
  }
  const unsubscribe = o.notifier.subscribe(o.subject, look)
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
