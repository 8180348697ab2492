/** The sandbox lifecycle, executed. Front doors translate into these calls and nothing else. */
import type { AuditAction, AuditEntry } from '../core/audit.ts'
import type { Capabilities, Check } from '../core/capability.ts'
import type { Base } from '../core/environment.ts'
import { asAgentPodError, type ErrorCode } from '../core/error.ts'
import type { SandboxEvent } from '../core/event.ts'
import type { GuestUsage } from '../core/guest.ts'
import { isSandboxId, parseName, type SandboxId } from '../core/id.ts'
import type { State } from '../core/lifecycle.ts'
import { LOCAL, maySee, type Principal } from '../core/principal.ts'
import type { HostStats } from '../core/provider.ts'
import type { Sandbox } from '../core/sandbox.ts'
import { ignore } from '../telemetry/log.ts'
import { KeyedLock } from '../util/keyed-lock.ts'
import { CALL, type Context, type EngineParts, type Live } from './context.ts'
import { type CreateRequest, create } from './create.ts'
import { destroy } from './destroy.ts'
import { type ExtendOptions, extend, notRunning } from './extend.ts'
import { Followers, type FollowOptions, follow } from './follow.ts'
import { guardedProvider } from './guarded-provider.ts'
import { Ledger } from './ledger.ts'
import { type Page, type PageRequest, page } from './page.ts'
import { exited, reconcile, sweep } from './sweep.ts'
import { type Usage, usage } from './usage.ts'

const SWEEP_EVERY_MS = 3000

export interface ListOptions {
  readonly labels: Readonly<Record<string, string>>
  /** Ended ones too. */
  readonly all: boolean
}

export class Engine {
  readonly #ctx: Context
  #unsubscribe = (): void => undefined
  #cancelSweep = (): void => undefined
  readonly #followers = new Followers()
  #isStopped = false

  constructor(parts: EngineParts) {
    this.#ctx = {
      ...parts,
      provider: guardedProvider(parts.provider, parts),
      ledger: new Ledger(parts),
      live: new Map(),
      lock: new KeyedLock(),
    }
  }

  /** Adopts or clears what an earlier life left, then keeps watch. */
  async start(): Promise<void> {
    await reconcile(this.#ctx)
    this.#unsubscribe = this.#ctx.provider.onExit((exit) => {
      exited(this.#ctx, exit).catch((error) => ignore(this.#ctx.log, error, 'the next sweep sees it'))
    })
    this.#watch()
  }

  /** Stops watching; sandboxes live on until their deadlines, which provider and guest hold. */
  stop(): void {
    this.#isStopped = true
    this.#unsubscribe()
    this.#cancelSweep()
    for (const { guest } of this.#ctx.live.values()) guest.close()
  }

  #watch(): void {
    const again = async (): Promise<void> => {
      try {
        if (this.#ctx.ledger.living().length > 0) await sweep(this.#ctx)
      } catch (error) {
        ignore(this.#ctx.log, error, 'a sweep failed; the next one tries again')
      }
      if (!this.#isStopped) this.#watch()
    }
    this.#cancelSweep = this.#ctx.clock.after(SWEEP_EVERY_MS, () => void again())
  }

  async create(request: CreateRequest): Promise<Sandbox> {
    const startedAt = performance.now()
    const done = (outcome: 'ok' | ErrorCode): void =>
      this.#ctx.onCreated?.((performance.now() - startedAt) / 1000, outcome)
    try {
      const sandbox = await create(this.#ctx, request)
      done('ok')
      this.#audit(request.owner ?? LOCAL.owner, 'sandbox.create', sandbox.id, { name: sandbox.name })
      return sandbox
    } catch (error) {
      done(asAgentPodError(error).code)
      throw error
    }
  }

  /** Makes a base ready ahead of a create, with progress. */
  async prepare(base: Base, onProgress: (line: string) => void): Promise<void> {
    await this.#ctx.roots.ensure(base, this.#ctx.provider, onProgress)
  }

  /** By id (ended ones too) or by the name of a living one; `not_found` otherwise. */
  get(ref: string, who: Principal = LOCAL): Sandbox {
    const sandbox = this.#find(ref, who)
    if (sandbox) return sandbox
    throw notRunning(ref, undefined)
  }

  list(o: ListOptions, who: Principal = LOCAL): Sandbox[] {
    const wanted = Object.entries(o.labels)
    const owner = who.isAdmin ? undefined : who.owner
    const all = o.all
      ? this.#ctx.sandboxes.page({ limit: 1000, owner, labels: o.labels }).reverse()
      : this.#ctx.ledger.living()
    return all.filter(
      (sandbox) => maySee(who, sandbox) && wanted.every(([key, value]) => sandbox.labels[key] === value),
    )
  }

  /** One page, newest first; `next` leads to the one after it, where there is one. */
  page(o: PageRequest, who: Principal = LOCAL): Page {
    return page(this.#ctx, o, who)
  }

  usage(who: Principal = LOCAL): Usage {
    return usage(this.#ctx, who)
  }

  async extend(ref: string, ttlMs: number, who: Principal = LOCAL, o: ExtendOptions = {}): Promise<Sandbox> {
    const extended = await extend(this.#ctx, this.get(ref, who).id, ttlMs, o)
    this.#audit(who.owner, 'sandbox.extend', extended.id, { ttlMs })
    return extended
  }

  async destroy(ref: string, who: Principal = LOCAL): Promise<Sandbox> {
    const sandbox = this.get(ref, who)
    if (sandbox.endedAt === undefined) this.#audit(who.owner, 'sandbox.destroy', sandbox.id, {})
    return (await destroy(this.#ctx, sandbox.id)) ?? sandbox
  }

  /** Destroys every sandbox and everything kept for later ones. */
  async clear(): Promise<void> {
    await Promise.all(this.#ctx.ledger.living().map(({ id }) => destroy(this.#ctx, id)))
    await this.#ctx.provider.clear({ timeoutMs: 120_000 })
  }

  /** The way into a running sandbox. Asks no database: this is the hot path of every exec. */
  live(ref: string, who: Principal = LOCAL): Live {
    const live = who.isAdmin ? this.#ctx.live.get(ref as SandboxId) : undefined
    if (live) return live
    const sandbox = this.#find(ref, who)
    const found = sandbox && this.#ctx.live.get(sandbox.id)
    if (found) return found
    throw notRunning(ref, sandbox)
  }

  async stats(ref: string, who: Principal = LOCAL): Promise<HostStats & GuestUsage> {
    const { id } = this.get(ref, who)
    const { guest } = this.live(id)
    const [usage, host] = await Promise.all([guest.usage(CALL), this.#ctx.provider.stats(id, CALL)])
    // Where the host counts, its figures are the truth; where it cannot (no cgroups), the guest's own stand in.
    return {
      ...usage,
      ...host,
      cpuMs: host.cpuMs || usage.cpuMs,
      memBytes: host.memBytes || usage.memBytes,
      pids: host.pids || usage.pids,
    }
  }

  events(ref: string, after: number, who: Principal = LOCAL): SandboxEvent[] {
    return this.#ctx.events.of(this.get(ref, who).id, { after, limit: 1000 })
  }

  /**
   * The events after `after` as they happen, in batches, until the sandbox has ended. `resource_exhausted` when too many
   * follow already. An empty batch says that nothing happened for a while.
   */
  follow(ref: string, o: FollowOptions, who: Principal = LOCAL): AsyncGenerator<readonly SandboxEvent[]> {
    const { id } = this.get(ref, who)
    const leave = this.#followers.enter(who.owner)
    // Also where nobody ever asks for the first batch.
    o.signal.addEventListener('abort', leave, { once: true })
    const ctx = this.#ctx
    return (async function* () {
      try {
        yield* follow(ctx, id, o)
      } finally {
        leave()
      }
    })()
  }

  /** Who asked for what, oldest first. */
  audit(o: { readonly after: number; readonly limit: number }): AuditEntry[] {
    return this.#ctx.audit?.list(o) ?? []
  }

  /** How many live in each state. */
  livingByState(): Map<State, number> {
    const counts = new Map<State, number>()
    for (const { state } of this.#ctx.ledger.living()) counts.set(state, (counts.get(state) ?? 0) + 1)
    return counts
  }

  capabilities(): Promise<Capabilities> {
    return this.#ctx.provider.capabilities(CALL)
  }

  diagnose(): Promise<readonly Check[]> {
    return this.#ctx.provider.diagnose({ timeoutMs: 60_000 })
  }

  get livingCount(): number {
    return this.#ctx.ledger.living().length
  }

  /** An entry that cannot be written is logged: what was asked for has happened. */
  #audit(actor: string, action: AuditAction, subject: string, data: AuditEntry['data']): void {
    try {
      this.#ctx.audit?.append({ at: this.#ctx.clock.now(), actor, action, subject, data })
    } catch (error) {
      ignore(this.#ctx.log, error, `${action} of ${subject} by ${actor} was not audited`)
    }
  }

  /** Somebody else's sandbox is as unknown as one that never was. */
  #find(ref: string, who: Principal): Sandbox | undefined {
    const own = this.#ctx.ledger.named(who.owner, ref)
    if (own) return own
    if (isSandboxId(ref)) {
      const sandbox = this.#ctx.ledger.get(ref)
      if (sandbox && maySee(who, sandbox)) return sandbox
    } else {
      parseName(ref)
    }
    return who.isAdmin ? this.#ctx.ledger.living().find(({ name }) => name === ref) : undefined
  }
}
