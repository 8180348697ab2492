/** The events of a sandbox as they happen: first what is stored, then what comes, until it has ended. */
import { AgentPodError } from '../core/error.ts'
import type { EventType, SandboxEvent } from '../core/event.ts'
import type { SandboxId } from '../core/id.ts'
import type { Context } from './context.ts'

export interface FollowOptions {
  /** The last event that the follower has. */
  readonly after: number
  /** After so long without an event, an empty batch says that the stream lives. */
  readonly keepaliveMs: number
  /** Only events of this type. */
  readonly type?: EventType | undefined
  readonly signal: AbortSignal
}

const BATCH = 100
const MOST_FOLLOWERS = 512
const MOST_FOLLOWERS_OF_ONE_OWNER = 64

/** Counts who follows, so that nobody takes all the room. */
export class Followers {
  readonly #counts = new Map<string, number>()
  #total = 0

  enter(owner: string): () => void {
    const mine = this.#counts.get(owner) ?? 0
    if (this.#total >= MOST_FOLLOWERS || mine >= MOST_FOLLOWERS_OF_ONE_OWNER) {
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'events.followers',
        message: 'too many follow events already',
        hint: 'end some of the streams that are open',
        retry: { afterMs: 5000 },
      })
    }
    this.#total++
    this.#counts.set(owner, mine + 1)
    let isLeft = false
    return () => {
      if (isLeft) return
      isLeft = true
      this.#total--
      const left = (this.#counts.get(owner) ?? 1) - 1
      if (left > 0) this.#counts.set(owner, left)
      else this.#counts.delete(owner)
    }
  }
}

/**
 * INVARIANT: the store is read after the subscription stands, and only ever from the last event given: so there is no gap and
 * no event twice. Nothing is queued: a slow follower reads later, from the store.
 */
export async function* follow(
  ctx: Context,
  id: SandboxId,
  { after, keepaliveMs, type, signal }: FollowOptions,
): AsyncGenerator<readonly SandboxEvent[]> {
  let last = after
  let isNew = true
  let wake = (): void => undefined
  const look = (): void => {
    isNew = true
    wake()
  }
  const unsubscribe = ctx.ledger.news.subscribe(id, look)
  const onAbort = (): void => wake()
  signal.addEventListener('abort', onAbort)
  try {
    while (!signal.aborted) {
      isNew = false
      const isEnded = ctx.ledger.get(id)?.endedAt !== undefined
      const events = ctx.events.of(id, { after: last, limit: BATCH, type })
      last = events.at(-1)?.seq ?? last
      if (events.length > 0) yield events
      else if (isEnded) return
      else if (!isNew) {
        await new Promise<void>((resolve) => {
          wake = resolve
          if (signal.aborted) return resolve()
          const cancel = ctx.clock.after(keepaliveMs, resolve)
          wake = () => {
            cancel()
            resolve()
          }
        })
        if (!isNew && !signal.aborted) yield []
      }
    }
  } finally {
    unsubscribe()
    signal.removeEventListener('abort', onAbort)
  }
}
