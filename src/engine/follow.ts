/** The events of a sandbox as they happen: first what is stored, then what comes, until it has ended. */
import { AgentPodError } from '../core/error.ts'
import type { EventType, SandboxEvent } from '../core/event.ts'
import type { SandboxId } from '../core/id.ts'
import { followNews } from '../util/follow-news.ts'
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

export function follow(
  ctx: Context,
  id: SandboxId,
  { type, ...o }: FollowOptions,
): AsyncGenerator<readonly SandboxEvent[]> {
  return followNews({
    ...o,
    news: ctx.ledger.news,
    subject: id,
    clock: ctx.clock,
    read: (after) => ctx.events.of(id, { after, limit: BATCH, type }),
    isEnded: () => ctx.ledger.get(id)?.endedAt !== undefined,
  })
}
