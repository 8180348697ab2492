/** The sandbox lifecycle, executed. Front doors translate into these calls and nothing else. */
import type { Capabilities, Check } from '../core/capability.ts'
import type { Base } from '../core/environment.ts'
import type { SandboxEvent } from '../core/event.ts'
import type { GuestUsage } from '../core/guest.ts'
import { isSandboxId, parseName, type SandboxId } from '../core/id.ts'
import { LOCAL, maySee, type Principal } from '../core/principal.ts'
import type { HostStats } from '../core/provider.ts'
import type { Sandbox } from '../core/sandbox.ts'
import { ignore } from '../telemetry/log.ts'
import { KeyedLock } from '../util/keyed-lock.ts'
import { CALL, type Context, type EngineParts, type Live } from './context.ts'
import { type CreateRequest, create } from './create.ts'
import { destroy } from './destroy.ts'
import { extend, notRunning } from './extend.ts'
import { guardedProvider } from './guarded-provider.ts'
import { Ledger } from './ledger.ts'
import { exited, reconcile, sweep } from './sweep.ts'

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

  create(request: CreateRequest): Promise<Sandbox> {
    return create(this.#ctx, request)
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
    const all = o.all ? this.#ctx.sandboxes.page({ limit: 1000 }).reverse() : this.#ctx.ledger.living()
    return all.filter(
      (sandbox) => maySee(who, sandbox) && wanted.every(([key, value]) => sandbox.labels[key] === value),
    )
  }

  extend(ref: string, ttlMs: number, who: Principal = LOCAL): Promise<Sandbox> {
    return extend(this.#ctx, this.get(ref, who).id, ttlMs)
  }

  async destroy(ref: string, who: Principal = LOCAL): Promise<Sandbox> {
    const sandbox = this.get(ref, who)
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

  capabilities(): Promise<Capabilities> {
    return this.#ctx.provider.capabilities(CALL)
  }

  diagnose(): Promise<readonly Check[]> {
    return this.#ctx.provider.diagnose({ timeoutMs: 60_000 })
  }

  get livingCount(): number {
    return this.#ctx.ledger.living().length
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
