/**
 * The only writer of sandbox records. Existing sandboxes (all that have not ended) are also held in memory,
 * so that the data plane reads no database. The database is written first, so memory never knows more than
 * the database.
 */
import { AgentPodError } from '../../core/error.ts'
import type { EventType } from '../../core/event.ts'
import type { SandboxId } from '../../core/id.ts'
import { type LifecycleEvent, next, type State } from '../../core/lifecycle.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { EventStore } from '../../store/events.ts'
import type { RequestKey, SandboxStore } from '../../store/sandboxes.ts'
import { ignore, type Log } from '../../telemetry/log.ts'
import type { Clock } from '../../util/clock.ts'
import { Notifier } from '../../util/notifier.ts'

export interface SandboxRegistryParts {
  readonly sandboxes: SandboxStore
  readonly events: EventStore
  readonly clock: Clock
  readonly log: Log
  /** Called with every record that was written. */
  onWritten?(sandbox: Sandbox): void
}

/** The fields that may change, with or without a change of state. */
export type RecordChange = Partial<
  Pick<
    Sandbox,
    | 'handle'
    | 'limits'
    | 'link'
    | 'spec'
    | 'startedAt'
    | 'deadlineAt'
    | 'ending'
    | 'tip'
    | 'owner'
    | 'labels'
    | 'savedBytes'
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

export class SandboxRegistry {
  readonly #parts: SandboxRegistryParts
  readonly #existing = new Map<SandboxId, Sandbox>()
  readonly #names = new Map<string, SandboxId>()
  /** Signals that something was appended. Listeners read the data from the store. */
  readonly notifier = new Notifier()

  constructor(parts: SandboxRegistryParts) {
    this.#parts = parts
    for (const sandbox of parts.sandboxes.existing()) this.#remember(sandbox)
  }

  /** Stores the intent to create a sandbox. */
  add(sandbox: Sandbox, request: RequestKey | undefined): void {
    this.#parts.sandboxes.insert(sandbox, request)
    this.#remember(sandbox)
    this.appendEvent(sandbox.id, 'sandbox.creating', {
      name: sandbox.name,
      base: sandbox.spec.environment.base,
      ...(sandbox.tip && { snapshot: sandbox.tip }),
      ...(sandbox.forkedFrom && { forkedFrom: sandbox.forkedFrom }),
    })
  }

  /** Moves a sandbox along the lifecycle table. `conflict` if the table has no such transition. */
  transition(id: SandboxId, event: LifecycleEvent, change: RecordChange = {}): Sandbox {
    const before = this.#require(id)
    const state = next(before.state, event)
    const endedAt = state === 'destroyed' ? this.#parts.clock.now() : before.endedAt
    const after = this.#write(
      { ...before, ...this.#pauseOf(state, before), ...change, state, endedAt },
      before,
    )
    const type = EVENTS[event]
    if (type && state !== before.state) this.appendEvent(id, type, change.ending ? { ...change.ending } : {})
    return after
  }

  /** Since when it is paused. Memory on the disk is that of a paused sandbox, or of one that is resumed. */
  #pauseOf(state: State, { pausedAt, savedBytes }: Sandbox): Pick<Sandbox, 'pausedAt' | 'savedBytes'> {
    if (state === 'paused') return { pausedAt: pausedAt ?? this.#parts.clock.now(), savedBytes }
    if (state === 'resuming') return { pausedAt, savedBytes }
    return { pausedAt: undefined, savedBytes: undefined }
  }

  /** Returns when all records would survive a power cut. Call it before a create or destroy is answered. */
  synced(): Promise<void> {
    return this.#parts.sandboxes.synced()
  }

  /** Changes fields of a record; the state stays. */
  update(id: SandboxId, change: RecordChange): Sandbox {
    const before = this.#require(id)
    return this.#write({ ...before, ...change }, before)
  }

  /** Ends the record of a failed sandbox, once nothing of it is left at the provider. */
  markCleaned(id: SandboxId): void {
    const sandbox = this.#require(id)
    if (sandbox.state === 'failed' && sandbox.endedAt === undefined)
      this.#write({ ...sandbox, endedAt: this.#parts.clock.now() }, sandbox)
  }

  /** Appends an event. If it cannot be written, that is logged; the operation itself never fails for it. */
  appendEvent(id: SandboxId, type: EventType, data: Record<string, unknown>): void {
    try {
      this.#parts.events.append({ at: this.#parts.clock.now(), sandboxId: id, type, data })
      this.notifier.notify(id)
    } catch (error) {
      ignore(this.#parts.log, error, `event ${type} of ${id} was not stored`)
    }
  }

  get(id: SandboxId): Sandbox | undefined {
    return this.#existing.get(id) ?? this.#parts.sandboxes.get(id)
  }

  byName(owner: string, name: string): Sandbox | undefined {
    const id = this.#names.get(nameKey(owner, name))
    return id && this.#existing.get(id)
  }

  /** All sandboxes that have not ended, in whatever state. */
  existing(): Sandbox[] {
    return [...this.#existing.values()]
  }

  existingOf(owner: string): Sandbox[] {
    return this.existing().filter((sandbox) => sandbox.owner === owner)
  }

  #write(sandbox: Sandbox, before: Sandbox): Sandbox {
    this.#parts.sandboxes.update(sandbox, before)
    if (sandbox.endedAt === undefined) {
      this.#remember(sandbox)
    } else {
      this.#existing.delete(sandbox.id)
      const key = sandbox.name && nameKey(sandbox.owner, sandbox.name)
      if (key && this.#names.get(key) === sandbox.id) this.#names.delete(key)
      // A failed sandbox ends without an event, so followers are woken here.
      this.notifier.notify(sandbox.id)
    }
    this.#parts.onWritten?.(sandbox)
    return sandbox
  }

  #remember(sandbox: Sandbox): void {
    this.#existing.set(sandbox.id, sandbox)
    if (sandbox.name) this.#names.set(nameKey(sandbox.owner, sandbox.name), sandbox.id)
  }

  #require(id: SandboxId): Sandbox {
    const sandbox = this.get(id)
    if (sandbox) return sandbox
    throw new AgentPodError({
      code: 'not_found',
      reason: 'sandbox.unknown',
      message: `there is no sandbox ${id}`,
    })
  }
}

/** Names are unique among the existing sandboxes of one owner. */
function nameKey(owner: string, name: string): string {
  return `${owner}/${name}`
}
