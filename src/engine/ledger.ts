/**
 * The one writer of sandbox records. Living sandboxes are held in memory as well, so that the data plane asks no database;
 * the database is written first, so that memory never knows more than the disk.
 */
import { AgentPodError } from '../core/error.ts'
import type { EventType } from '../core/event.ts'
import type { SandboxId } from '../core/id.ts'
import { type LifecycleEvent, next } from '../core/lifecycle.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { EventStore } from '../store/events.ts'
import type { RequestKey, SandboxStore } from '../store/sandboxes.ts'
import { ignore, type Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import { News } from '../util/news.ts'

export interface LedgerParts {
  readonly sandboxes: SandboxStore
  readonly events: EventStore
  readonly clock: Clock
  readonly log: Log
  /** Told of every record that was written. */
  onWritten?(sandbox: Sandbox): void
}

/** What may change along with a state, or without one. */
export type Change = Partial<
  Pick<
    Sandbox,
    'handle' | 'limits' | 'link' | 'spec' | 'startedAt' | 'deadlineAt' | 'ending' | 'tip' | 'owner' | 'labels'
  >
>

const EVENTS: Partial<Record<LifecycleEvent, EventType>> = {
  created: 'sandbox.running',
  paused: 'sandbox.paused',
  resumed: 'sandbox.resumed',
  stopped: 'sandbox.stopped',
  started: 'sandbox.started',
  destroy: 'sandbox.destroying',
  destroyed: 'sandbox.destroyed',
  fail: 'sandbox.failed',
}

export class Ledger {
  readonly #parts: LedgerParts
  readonly #living = new Map<SandboxId, Sandbox>()
  readonly #names = new Map<string, SandboxId>()
  /** Tells that something was appended, not what: whoever listens reads it from the store. */
  readonly news = new News()

  constructor(parts: LedgerParts) {
    this.#parts = parts
    for (const sandbox of parts.sandboxes.living()) this.#remember(sandbox)
  }

  /** Stores the intent to create. */
  begin(sandbox: Sandbox, request: RequestKey | undefined): void {
    this.#parts.sandboxes.insert(sandbox, request)
    this.#remember(sandbox)
    this.note(sandbox.id, 'sandbox.creating', {
      name: sandbox.name,
      base: sandbox.spec.environment.base,
      ...(sandbox.tip && { snapshot: sandbox.tip }),
      ...(sandbox.forkedFrom && { forkedFrom: sandbox.forkedFrom }),
    })
  }

  /** Moves a sandbox along the lifecycle table; `conflict` when the table has no such move. */
  move(id: SandboxId, event: LifecycleEvent, change: Change = {}): Sandbox {
    const before = this.#need(id)
    const state = next(before.state, event)
    const endedAt = state === 'destroyed' ? this.#parts.clock.now() : before.endedAt
    const after = this.#write({ ...before, ...change, state, endedAt })
    const type = EVENTS[event]
    if (type && state !== before.state) this.note(id, type, change.ending ? { ...change.ending } : {})
    return after
  }

  /** Changes a record and leaves its state. */
  amend(id: SandboxId, change: Change): Sandbox {
    return this.#write({ ...this.#need(id), ...change })
  }

  /** A failed sandbox of which nothing is left outside. */
  settle(id: SandboxId): void {
    const sandbox = this.#need(id)
    if (sandbox.state === 'failed' && sandbox.endedAt === undefined)
      this.#write({ ...sandbox, endedAt: this.#parts.clock.now() })
  }

  /** Appends a fact. An event that cannot be written is logged, never a reason to fail what happened. */
  note(id: SandboxId, type: EventType, data: Record<string, unknown>): void {
    try {
      this.#parts.events.append({ at: this.#parts.clock.now(), sandboxId: id, type, data })
      this.news.tell(id)
    } catch (error) {
      ignore(this.#parts.log, error, `event ${type} of ${id} was not stored`)
    }
  }

  get(id: SandboxId): Sandbox | undefined {
    return this.#living.get(id) ?? this.#parts.sandboxes.get(id)
  }

  named(owner: string, name: string): Sandbox | undefined {
    const id = this.#names.get(nameKey(owner, name))
    return id && this.#living.get(id)
  }

  living(): Sandbox[] {
    return [...this.#living.values()]
  }

  livingOf(owner: string): Sandbox[] {
    return this.living().filter((sandbox) => sandbox.owner === owner)
  }

  #write(sandbox: Sandbox): Sandbox {
    this.#parts.sandboxes.update(sandbox)
    if (sandbox.endedAt === undefined) {
      this.#remember(sandbox)
    } else {
      this.#living.delete(sandbox.id)
      const key = sandbox.name && nameKey(sandbox.owner, sandbox.name)
      if (key && this.#names.get(key) === sandbox.id) this.#names.delete(key)
      // A failed sandbox ends without an event of its own; followers look again all the same.
      this.news.tell(sandbox.id)
    }
    this.#parts.onWritten?.(sandbox)
    return sandbox
  }

  #remember(sandbox: Sandbox): void {
    this.#living.set(sandbox.id, sandbox)
    if (sandbox.name) this.#names.set(nameKey(sandbox.owner, sandbox.name), sandbox.id)
  }

  #need(id: SandboxId): Sandbox {
    const sandbox = this.get(id)
    if (sandbox) return sandbox
    throw new AgentPodError({
      code: 'not_found',
      reason: 'sandbox.unknown',
      message: `there is no sandbox ${id}`,
    })
  }
}

/** Names are unique among the living sandboxes of one owner. */
function nameKey(owner: string, name: string): string {
  return `${owner}/${name}`
}
