/** The events of sandboxes: stored ones, and new ones as they happen. */
import type { EventType, SandboxEvent } from '../core/event.ts'
import type { Principal } from '../core/principal.ts'
import type { Context } from './context.ts'
import { getSandbox } from './find-sandbox.ts'
import { type FollowEventsOptions, FollowerLimit, followSandboxEvents } from './follow-events.ts'

export class EventOperations {
  readonly #ctx: Context
  readonly #followers = new FollowerLimit()

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  /** At most 1,000, oldest first. */
  list(ref: string, after: number, who: Principal, type?: EventType): SandboxEvent[] {
    return this.#ctx.events.of(getSandbox(this.#ctx, ref, who).id, { after, limit: 1000, type })
  }

  /**
   * The events after `after` as they happen, in batches, until the sandbox has ended. An empty batch means
   * that nothing happened for a while. `resource_exhausted` if there are too many followers.
   */
  follow(ref: string, o: FollowEventsOptions, who: Principal): AsyncGenerator<readonly SandboxEvent[]> {
    const { id } = getSandbox(this.#ctx, ref, who)
    const leave = this.#followers.enter(who.owner)
    // Needed for a generator that is never read from: its `finally` would not run.
    o.signal.addEventListener('abort', leave, { once: true })
    const ctx = this.#ctx
    return (async function* () {
      try {
        yield* followSandboxEvents(ctx, id, o)
      } finally {
        leave()
      }
    })()
  }
}
