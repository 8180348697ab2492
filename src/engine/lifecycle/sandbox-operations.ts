/**
 * Creating, finding, changing and ending sandboxes, as the API asks for it: access is checked, calls are
 * audited.
 */
import { asAgentPodError, type ErrorCode, invalid } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import { maySee, type Principal } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Context } from '../context.ts'
import { getSandbox } from '../find-sandbox.ts'
import { type Page, type PageRequest, page } from '../page.ts'
import { recordAudit } from '../record-audit.ts'
import { type Forked, type ForkRequest, fork, restore } from '../snapshots/fork.ts'
import { type CreateRequest, create } from './create.ts'
import { destroy } from './destroy.ts'
import { checkTtl, type ExtendOptions, extend } from './extend.ts'
import { pause, resume } from './pause.ts'
import { start, stop } from './stop.ts'
import { expire } from './sweep.ts'

export interface SandboxFilter {
  readonly labels: Readonly<Record<string, string>>
  /** Includes sandboxes that have ended. */
  readonly all: boolean
}

/** A request of the API for a sandbox. */
export interface NewSandbox extends Omit<CreateRequest, 'origin' | 'owner' | 'who' | 'cap'> {
  /** The owner of the sandbox; the caller if left out. */
  readonly owner?: string | undefined
  /** The id or name of the snapshot to start from. */
  readonly snapshot?: string | undefined
  /** Whether to continue the processes of the snapshot; by default if it has their memory. */
  readonly memory?: boolean | undefined
}

export interface ResumeOptions {
  /** A new time to live; the one of the sandbox's spec if left out. */
  readonly ttlMs?: number | undefined
}

export class SandboxOperations {
  readonly #ctx: Context

  constructor(ctx: Context) {
    this.#ctx = ctx
  }

  /** `who` also decides which snapshots and built environments it may start from. */
  async create(request: NewSandbox, who: Principal): Promise<Sandbox> {
    const startedAt = performance.now()
    const done = (outcome: 'ok' | ErrorCode): void =>
      this.#ctx.onCreated?.((performance.now() - startedAt) / 1000, outcome)
    try {
      const sandbox = await this.#create(request, who)
      done('ok')
      recordAudit(this.#ctx, who, 'sandbox.create', { subject: sandbox.id, data: { name: sandbox.name } })
      return sandbox
    } catch (error) {
      done(asAgentPodError(error).code)
      throw error
    }
  }

  #create(request: NewSandbox, who: Principal): Promise<Sandbox> | Sandbox {
    const { snapshot, memory, ...rest } = request
    const asked = { ...rest, owner: request.owner ?? who.owner, cap: who.network, who }
    if (snapshot === undefined) {
      if (memory !== undefined) throw invalid('create.memory', 'memory needs a snapshot to start from')
      return create(this.#ctx, asked)
    }
    const earlier = this.#createdEarlier(request, who)
    return earlier ?? restore(this.#ctx, this.#ctx.snapshotRegistry.get(snapshot, who), { ...asked, memory })
  }

  /** The sandbox of an earlier request with the same key, if the snapshot it was made from is gone by now. */
  #createdEarlier({ requestKey, owner, snapshot }: NewSandbox, who: Principal): Sandbox | undefined {
    const { snapshotRegistry, sandboxes } = this.#ctx
    if (requestKey === undefined || snapshot === undefined || snapshotRegistry.has(snapshot, who))
      return undefined
    return sandboxes.requested(owner ?? who.owner, requestKey)?.sandbox
  }

  /** Copies of a sandbox, all with its files of the same moment. */
  async fork(
    ref: string,
    request: Omit<ForkRequest, 'owner' | 'who' | 'cap'>,
    who: Principal,
  ): Promise<Forked[]> {
    const { id } = this.get(ref, who)
    const forked = await fork(this.#ctx, id, { ...request, owner: who.owner, cap: who.network, who })
    recordAudit(this.#ctx, who, 'sandbox.fork', { subject: id, data: { count: forked.length } })
    return forked
  }

  /** By id (ended sandboxes too) or by the name of an existing one. `not_found` if there is none. */
  get(ref: string, who: Principal): Sandbox {
    return getSandbox(this.#ctx, ref, who)
  }

  list(o: SandboxFilter, who: Principal): Sandbox[] {
    const wanted = Object.entries(o.labels)
    const owner = who.isAdmin ? undefined : who.owner
    const all = o.all
      ? this.#ctx.sandboxes.page({ limit: 1000, owner, labels: o.labels }).reverse()
      : this.#ctx.registry.existing()
    return all.filter(
      (sandbox) => maySee(who, sandbox) && wanted.every(([key, value]) => sandbox.labels[key] === value),
    )
  }

  /** One page, newest first; `next` is the cursor of the following page, if there is one. */
  page(o: PageRequest, who: Principal): Page {
    return page(this.#ctx, o, who)
  }

  async extend(ref: string, ttlMs: number, who: Principal, o: ExtendOptions = {}): Promise<Sandbox> {
    const extended = await extend(this.#ctx, this.get(ref, who).id, ttlMs, o)
    recordAudit(this.#ctx, who, 'sandbox.extend', { subject: extended.id, data: { ttlMs } })
    return extended
  }

  /** Ends the time of a running sandbox now: it is destroyed, paused or stopped, as its lifetime says. */
  async expire(ref: string, who: Principal): Promise<void> {
    const { id } = this.get(ref, who)
    await expire(this.#ctx, id)
    recordAudit(this.#ctx, who, 'sandbox.extend', { subject: id, data: { ttlMs: 0 } })
  }

  /** Idempotent. */
  async destroy(ref: string, who: Principal): Promise<Sandbox> {
    const sandbox = this.get(ref, who)
    if (sandbox.endedAt === undefined) recordAudit(this.#ctx, who, 'sandbox.destroy', { subject: sandbox.id })
    return (await destroy(this.#ctx, sandbox.id)) ?? sandbox
  }

  /**
   * Freezes it and keeps its memory, or with `toDisk` writes that to the disk. Idempotent. `unsupported`,
   * before anything changes, if the provider cannot.
   */
  async pause(
    ref: string,
    who: Principal,
    o: { readonly toDisk?: boolean | undefined } = {},
  ): Promise<Sandbox> {
    const paused = await pause(this.#ctx, this.get(ref, who).id, { toDisk: o.toDisk })
    recordAudit(this.#ctx, who, 'sandbox.pause', { subject: paused.id })
    return paused
  }

  /** Whether a pause can write the memory of the sandbox to disk. */
  canPauseToDisk(ref: string, who: Principal): boolean {
    return this.#ctx.providers.of(this.get(ref, who)).pausing?.toDisk !== undefined
  }

  /** Idempotent. */
  async resume(ref: string, who: Principal, o: ResumeOptions = {}): Promise<Sandbox> {
    if (o.ttlMs !== undefined) checkTtl(o.ttlMs)
    const resumed = await resume(this.#ctx, this.get(ref, who).id, o.ttlMs)
    recordAudit(this.#ctx, who, 'sandbox.resume', { subject: resumed.id })
    return resumed
  }

  /** Ends its processes and keeps its files. Idempotent. */
  async stop(ref: string, who: Principal): Promise<Sandbox> {
    const stopped = await stop(this.#ctx, this.get(ref, who).id)
    recordAudit(this.#ctx, who, 'sandbox.stop', { subject: stopped.id })
    return stopped
  }

  /** Runs a stopped sandbox again on its files. Idempotent. */
  async start(ref: string, who: Principal, o: ResumeOptions = {}): Promise<Sandbox> {
    if (o.ttlMs !== undefined) checkTtl(o.ttlMs)
    const started = await start(this.#ctx, this.get(ref, who).id, o.ttlMs)
    recordAudit(this.#ctx, who, 'sandbox.start', { subject: started.id })
    return started
  }

  /** Gives a sandbox a new owner and new labels. */
  async transferOwnership(
    id: SandboxId,
    to: { readonly owner: string; readonly labels: Sandbox['labels'] },
  ): Promise<void> {
    await this.#ctx.lock.run(id, async () => void this.#ctx.registry.update(id, to))
  }
}
