/**
 * The events of a sandbox as they happen: first the stored ones, then new ones, until the sandbox has ended.
 */
import { AgentPodError } from '../core/error.ts'
import type { EventType, SandboxEvent } from '../core/event.ts'
import type { SandboxId } from '../core/id.ts'
import { followRecords } from '../util/follow-records.ts'
import type { Context } from './context.ts'

export interface FollowEventsOptions {
  /** The sequence number of the last event that the follower has. */
  readonly after: number
  /** After this long without an event, an empty batch shows that the stream is alive. */
  readonly keepaliveMs: number
  /** Only events of this type. */
  readonly type?: EventType | undefined
  readonly signal: AbortSignal
}

const BATCH = 100
const MOST_FOLLOWERS = 512
const MOST_FOLLOWERS_OF_ONE_OWNER = 64

/** Limits how many followers there are, in all and per owner. */
export class FollowerLimit {
  readonly #counts = new Map<string, number>()
  #total = 0

  enter(owner: string): () => void {
    const mine = this.#counts.get(owner) ?? 0
    if (this.#total >= MOST_FOLLOWERS || mine >= MOST_FOLLOWERS_OF_ONE_OWNER) {
      throw new AgentPodError({
        code: 'resource_exhausted',
        reason: 'events.followers',
        message: 'too many clients are following events',
        hint: 'close some of the open event streams',
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

export function followSandboxEvents(
  ctx: Context,
  id: SandboxId,
  { type, ...o }: FollowEventsOptions,
): AsyncGenerator<readonly SandboxEvent[]> {
  return followRecords({
    ...o,
    notifier: ctx.registry.notifier,
    subject: id,
    clock: ctx.clock,
    read: (after) => ctx.events.of(id, { after, limit: BATCH, type }),
    isEnded: () => ctx.registry.get(id)?.endedAt !== undefined,
  })
}
