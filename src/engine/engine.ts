/** The sandbox lifecycle, executed. Front doors translate into these calls and nothing else. */
import type { Readable } from 'node:stream'
import { baseFor } from '../bases/bases.ts'
import type { AuditAction, AuditEntry } from '../core/audit.ts'
import type { Capabilities, Check, Isolation } from '../core/capability.ts'
import type { Base } from '../core/environment.ts'
import { asAgentPodError, type ErrorCode } from '../core/error.ts'
import type { EventType, SandboxEvent } from '../core/event.ts'
import type { GuestStats } from '../core/guest.ts'
import { isSandboxId, isSnapshotId, parseName, type SandboxId, type SnapshotId } from '../core/id.ts'
import type { State } from '../core/lifecycle.ts'
import type { NetCounts } from '../core/network.ts'
import { LOCAL, maySee, type Principal } from '../core/principal.ts'
import type { HostStats, Provider, RootRef } from '../core/provider.ts'
import type { BaseWish } from '../core/recipe.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { LayerInfo, Snapshot } from '../core/snapshot.ts'
import type { Spec } from '../core/spec.ts'
import { ignore } from '../telemetry/log.ts'
import { KeyedLock } from '../util/keyed-lock.ts'
import { Album, type Layer } from './album.ts'
import { exportSnapshot, type ImportRequest, importSnapshot } from './archive.ts'
import { Authorities } from './authorities.ts'
import { CALL } from './call.ts'
import { clearAll } from './clear.ts'
import type { Context, EngineParts, Live } from './context.ts'
import { type CreateRequest, create } from './create.ts'
import { Deadlines } from './deadlines.ts'
import { destroy } from './destroy.ts'
import { checkTtl, type ExtendOptions, extend } from './extend.ts'
import { Followers, type FollowOptions, follow } from './follow.ts'
import { type Forked, type ForkRequest, fork, restore } from './fork.ts'
import { allLayers, keepLayer, layersInUse, removeLayer, standingOn } from './layers.ts'
import { Ledger } from './ledger.ts'
import type { UsageListener } from './model-usage.ts'
import { notRunning } from './need.ts'
import { netCounts } from './network-verbs.ts'
import { type Desk, Networks } from './networks.ts'
import { type Page, type PageRequest, page } from './page.ts'
import { pause, resume } from './pause.ts'
import { Providers } from './providers.ts'
import { reach } from './reach.ts'
import { Secrets } from './secrets.ts'
import { beginServices } from './services.ts'
import { removeSnapshot, takeSnapshot } from './snapshot.ts'
import { start, stop } from './stop.ts'
import { expire, onTime, reconcile } from './sweep.ts'
import { type Usage, usage } from './usage.ts'
import { Watch } from './watch.ts'

/** How long a start waits for what providers say of an earlier life. */
const FIRST_SWEEP_MS = 5000

/** A provider as a front door shows it. */
export interface ProviderInfo {
  readonly name: string
  /** Unknown while it cannot be asked. */
  readonly isolation?: Isolation | undefined
  readonly ready: boolean
  /** Why it is not ready. */
  readonly reason?: string | undefined
  readonly capabilities?: Capabilities | undefined
}

export interface ListOptions {
  readonly labels: Readonly<Record<string, string>>
  /** Ended ones too. */
  readonly all: boolean
}

/** What a front door may ask for. */
export interface NewSandbox extends Omit<CreateRequest, 'origin'> {
  /** The id or name of a snapshot whose files it begins with. */
  readonly snapshot?: string | undefined
}

export class Engine {
  readonly #ctx: Context
  readonly #watch: Watch
  readonly #followers = new Followers()
  readonly #deadlines: Deadlines
  readonly networks: Networks
  readonly secrets: Secrets
  #isStopped = false

  constructor(parts: EngineParts) {
    this.#deadlines = new Deadlines(parts.clock, (id) => this.#onTime(id))
    this.#ctx = {
      ...parts,
      providers: new Providers({ ...parts, uses: parts.sandboxes }),
      ledger: new Ledger({ ...parts, onWritten: (sandbox) => this.#deadlines.follow(sandbox) }),
      album: new Album(parts.snapshots),
      live: new Map(),
      frozen: new Map(),
      lock: new KeyedLock(),
      authorities: new Authorities(() => ({ now: parts.clock.now(), random: parts.random })),
    }
    this.#watch = new Watch(this.#ctx)
    const desk: Desk = {
      ctx: this.#ctx,
      get: (ref, who) => this.get(ref, who),
      audit: (...entry) => this.#audit(...entry),
    }
    this.networks = new Networks(desk)
    this.secrets = new Secrets(desk)
  }

  /** Tells what models are asked for by sandboxes that are metered, one answer at a time. Returns what ends it. */
  onModelUsage(listener: UsageListener): () => void {
    return this.networks.onModelUsage(listener)
  }

  /** Adopts or clears what an earlier life left, then keeps watch. */
  async open(): Promise<void> {
    const { providers, ledger, clock } = this.#ctx
    const first: Promise<void>[] = []
    providers.onUsed = (provider) => first.push(this.#watch.add(provider))
    providers.use(providers.default)
    await reconcile(this.#ctx)
    // A provider that does not answer keeps nobody else waiting for long.
    const waited = Promise.withResolvers<void>()
    const cancel = clock.after(FIRST_SWEEP_MS, waited.resolve)
    await Promise.race([Promise.all(first), waited.promise])
    cancel()
    for (const sandbox of ledger.living()) this.#deadlines.follow(sandbox)
    providers.onUsed = (provider) => void this.#watch.add(provider)
  }

  /** Stops watching; sandboxes live on until their deadlines, which provider and guest hold. */
  close(): void {
    if (this.#isStopped) return
    this.#isStopped = true
    this.#ctx.providers.onUsed = () => undefined
    this.#watch.end()
    this.#deadlines.close()
    for (const { guest } of [...this.#ctx.live.values(), ...this.#ctx.frozen.values()]) guest.close()
    // Last: the ways into sandboxes go through them.
    this.#ctx.providers.close()
  }

  #onTime(id: SandboxId): void {
    if (this.#isStopped) return
    onTime(this.#ctx, id).catch((error) => ignore(this.#ctx.log, error, 'the next sweep tries again'))
  }

  /** `who` says which snapshots it may be made from. */
  async create(request: NewSandbox, who: Principal = asker(request)): Promise<Sandbox> {
    const startedAt = performance.now()
    const done = (outcome: 'ok' | ErrorCode): void =>
      this.#ctx.onCreated?.((performance.now() - startedAt) / 1000, outcome)
    try {
      const { snapshot, ...rest } = request
      const asked = { ...rest, cap: who.network, who }
      const sandbox =
        snapshot === undefined
          ? await create(this.#ctx, asked)
          : (this.#madeBefore(request, who) ??
            (await restore(this.#ctx, this.#ctx.album.get(snapshot, who), asked)))
      done('ok')
      this.#audit(who.owner, 'sandbox.create', sandbox.id, { name: sandbox.name })
      return sandbox
    } catch (error) {
      done(asAgentPodError(error).code)
      throw error
    }
  }

  /** The sandbox of an earlier request with the same key, where the snapshot that it was made from is gone by now. */
  #madeBefore({ requestKey, owner, snapshot }: NewSandbox, who: Principal): Sandbox | undefined {
    if (requestKey === undefined || snapshot === undefined || this.#ctx.album.has(snapshot, who))
      return undefined
    return this.#ctx.sandboxes.requested(owner ?? LOCAL.owner, requestKey)?.sandbox
  }

  /** Makes a base ready ahead of a create, with progress. */
  async prepare(
    wish: Omit<BaseWish, 'name'> & { readonly name?: Base | undefined },
    onProgress: (line: string) => void,
    name?: string,
  ): Promise<{ root: RootRef; digest: string | undefined; provider: Provider }> {
    const { providers, roots } = this.#ctx
    const provider = providers.use(name === undefined ? providers.default : providers.named(name))
    const base = wish.name ?? baseFor(wish, provider)
    const { root, digest } = await roots.ensure({ ...wish, name: base }, provider, onProgress)
    return { root, digest, provider }
  }

  /** A finished layer of a built environment. */
  layer(key: string): Layer | undefined {
    return this.#ctx.album.layer(key)
  }

  layers(): Layer[] {
    return allLayers(this.#ctx)
  }

  /** What something else than a layer stands on. */
  layersInUse(): Set<SnapshotId> {
    return layersInUse(this.#ctx)
  }

  /** The names of what stands on a layer. */
  standingOn(layer: Layer): ReturnType<typeof standingOn> {
    return standingOn(this.#ctx, layer)
  }

  /** Notes that somebody has it built, too. */
  shareLayer(layer: Layer, owner: string): Layer {
    return this.#ctx.album.share(layer, owner)
  }

  /** Gives a sandbox to somebody else, with other labels. */
  async handOver(
    id: SandboxId,
    to: { readonly owner: string; readonly labels: Sandbox['labels'] },
  ): Promise<void> {
    await this.#ctx.lock.run(id, async () => void this.#ctx.ledger.amend(id, to))
  }

  /** Keeps what a sandbox wrote as a layer; the sandbox is to be stopped. */
  keepLayer(id: SandboxId, info: LayerInfo): Promise<Layer> {
    return keepLayer(this.#ctx, id, info)
  }

  /** False where something stands on it. */
  removeLayer(layer: Layer): Promise<boolean> {
    return removeLayer(this.#ctx, layer)
  }

  /** Starts the services that wait for the project's files, and runs the command of every start. */
  async begin(ref: string, who: Principal = LOCAL): Promise<Sandbox> {
    const { id } = this.get(ref, who)
    await beginServices(this.#ctx, id)
    return this.get(id, who)
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

  /** Ends the time of a running one now: it is destroyed, paused or stopped, as its lifetime says. */
  async expire(ref: string, who: Principal = LOCAL): Promise<void> {
    const { id } = this.get(ref, who)
    await expire(this.#ctx, id)
    this.#audit(who.owner, 'sandbox.extend', id, { ttlMs: 0 })
  }

  async destroy(ref: string, who: Principal = LOCAL): Promise<Sandbox> {
    const sandbox = this.get(ref, who)
    if (sandbox.endedAt === undefined) this.#audit(who.owner, 'sandbox.destroy', sandbox.id, {})
    return (await destroy(this.#ctx, sandbox.id)) ?? sandbox
  }

  /** Freezes it with its memory. Idempotent. `unsupported`, before anything is touched, where there is no freezer. */
  async pause(ref: string, who: Principal = LOCAL): Promise<Sandbox> {
    const paused = await pause(this.#ctx, this.get(ref, who).id)
    this.#audit(who.owner, 'sandbox.pause', paused.id, {})
    return paused
  }

  /** Lets a paused one run on. Idempotent. */
  async resume(
    ref: string,
    who: Principal = LOCAL,
    o: { readonly ttlMs?: number | undefined } = {},
  ): Promise<Sandbox> {
    if (o.ttlMs !== undefined) checkTtl(o.ttlMs)
    const resumed = await resume(this.#ctx, this.get(ref, who).id, o.ttlMs)
    this.#audit(who.owner, 'sandbox.resume', resumed.id, {})
    return resumed
  }

  /** Ends its processes and keeps its files. Idempotent. */
  async stop(ref: string, who: Principal = LOCAL): Promise<Sandbox> {
    const stopped = await stop(this.#ctx, this.get(ref, who).id)
    this.#audit(who.owner, 'sandbox.stop', stopped.id, {})
    return stopped
  }

  /** Runs a stopped one again on its files. Idempotent. */
  async start(
    ref: string,
    who: Principal = LOCAL,
    o: { readonly ttlMs?: number | undefined } = {},
  ): Promise<Sandbox> {
    if (o.ttlMs !== undefined) checkTtl(o.ttlMs)
    const started = await start(this.#ctx, this.get(ref, who).id, o.ttlMs)
    this.#audit(who.owner, 'sandbox.start', started.id, {})
    return started
  }

  /** Its files as they are at this moment. */
  async snapshot(
    ref: string,
    o: { readonly name?: string | undefined; readonly labels?: Readonly<Record<string, string>> | undefined },
    who: Principal = LOCAL,
  ): Promise<Snapshot> {
    const { id } = this.get(ref, who)
    const snapshot = await takeSnapshot(this.#ctx, id, { owner: who.owner, ...o })
    this.#audit(who.owner, 'snapshot.create', snapshot.id, { sandbox: id })
    return snapshot
  }

  /** Oldest first. */
  snapshots(who: Principal = LOCAL): Snapshot[] {
    return this.#ctx.album.list(who)
  }

  /** By id or name; `not_found` otherwise. */
  getSnapshot(ref: string, who: Principal = LOCAL): Snapshot {
    return this.#ctx.album.get(ref, who)
  }

  /** Keeps one that a sandbox will be made from until what is returned is called; does nothing where it is gone. */
  holdSnapshot(id: string): () => void {
    return isSnapshotId(id) && this.#ctx.album.has(id, LOCAL) ? this.#ctx.album.hold(id) : () => undefined
  }

  async removeSnapshot(ref: string, who: Principal = LOCAL): Promise<void> {
    const snapshot = this.#ctx.album.get(ref, who)
    await removeSnapshot(this.#ctx, snapshot)
    this.#audit(who.owner, 'snapshot.destroy', snapshot.id, {})
  }

  /** A snapshot as one archive. */
  exportSnapshot(ref: string, who: Principal = LOCAL): Promise<Readable> {
    return exportSnapshot(this.#ctx, this.#ctx.album.get(ref, who))
  }

  /** `data_loss` when the archive is damaged or cut short, before anything of it can be used. */
  async importSnapshot(archive: Readable, request: ImportRequest): Promise<Snapshot> {
    const snapshot = await importSnapshot(this.#ctx, archive, request)
    this.#audit(request.owner, 'snapshot.import', snapshot.id, {})
    return snapshot
  }

  /** Copies of a sandbox, all with the files of one moment. */
  async fork(ref: string, request: Omit<ForkRequest, 'owner'>, who: Principal = LOCAL): Promise<Forked[]> {
    const { id } = this.get(ref, who)
    const forked = await fork(this.#ctx, id, { ...request, owner: who.owner, cap: who.network })
    this.#audit(who.owner, 'sandbox.fork', id, { count: forked.length })
    return forked
  }

  /**
   * Destroys every sandbox, every snapshot and everything kept for later ones; nothing is watched from then on. Where something is left,
   * the error says what, and the watch goes on.
   */
  async clear(): Promise<void> {
    const { providers } = this.#ctx
    // A sweep would start the helpers again that a provider ends.
    const { onUsed } = providers
    providers.onUsed = () => undefined
    this.#watch.end()
    try {
      await clearAll(this.#ctx)
    } catch (error) {
      providers.onUsed = onUsed
      for (const provider of providers.used) onUsed(provider)
      throw error
    }
    this.close()
  }

  /** The way into a running sandbox. Asks no database: this is the hot path of every exec. */
  live(ref: string, who: Principal = LOCAL): Live {
    const live = who.isAdmin ? this.#ctx.live.get(ref as SandboxId) : undefined
    if (live) return live
    const sandbox = this.#find(ref, who)
    const found = sandbox && this.#ctx.live.get(sandbox.id)
    if (found) return found
    if (sandbox?.state === 'running') this.#ctx.providers.of(sandbox)
    throw notRunning(ref, sandbox)
  }

  /** The way into a sandbox, woken first where its spec says so and the caller does not forbid it. */
  async reach(
    ref: string,
    who: Principal = LOCAL,
    o: { readonly wake?: boolean | undefined } = {},
  ): Promise<Live> {
    return reach(this.#ctx, this.get(ref, who).id, o.wake ?? true)
  }

  async stats(ref: string, who: Principal = LOCAL): Promise<HostStats & GuestStats & { network: NetCounts }> {
    const { id, provider, spec } = this.get(ref, who)
    const { guest } = this.live(id)
    const [inside, host, network] = await Promise.all([
      guest.stats(CALL),
      this.#ctx.providers.of({ provider }).metering?.stats(id, CALL) ?? unmetered(spec),
      netCounts(this.#ctx, id),
    ])
    // Where the host counts, its figures are the truth; where it cannot (no cgroups), the guest's own stand in.
    return {
      ...inside,
      ...host,
      network,
      cpuMs: host.cpuMs || inside.cpuMs,
      memBytes: host.memBytes || inside.memBytes,
      pids: host.pids || inside.pids,
    }
  }

  /** At most 1,000, oldest first. */
  events(ref: string, after: number, who: Principal = LOCAL, type?: EventType): SandboxEvent[] {
    return this.#ctx.events.of(this.get(ref, who).id, { after, limit: 1000, type })
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

  /** Of the provider that is named, or of the default one. */
  capabilities(name?: string): Promise<Capabilities> {
    return this.#provider(name).capabilities(CALL)
  }

  diagnose(name?: string): Promise<readonly Check[]> {
    return this.#provider(name).diagnose(DIAGNOSE)
  }

  get defaultProvider(): string {
    return this.#ctx.providers.default.name
  }

  /** Every provider with what it can do, or the reason why it cannot do anything now. */
  providers(): Promise<ProviderInfo[]> {
    return Promise.all(this.#ctx.providers.all.map(describe))
  }

  #provider(name: string | undefined): Provider {
    const { providers } = this.#ctx
    return name === undefined ? providers.default : providers.named(name)
  }

  get livingCount(): number {
    return this.#ctx.ledger.living().length
  }

  /** How many have to be watched: what is paused or stopped keeps without a server. */
  get busyCount(): number {
    return this.#ctx.ledger.living().filter(({ state }) => state !== 'paused' && state !== 'stopped').length
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

const DIAGNOSE = { timeoutMs: 60_000 }
/** In a list, one that does not answer must not keep the others waiting for as long. */
const DESCRIBE = { timeoutMs: 15_000 }

async function describe(provider: Provider): Promise<ProviderInfo> {
  const { name } = provider
  try {
    const capabilities = await provider.capabilities(DESCRIBE)
    const failed = (await provider.diagnose(DESCRIBE)).find(({ ok, required }) => required && !ok)
    const reason = failed && [failed.detail, failed.hint].filter(Boolean).join('; ')
    return { name, isolation: capabilities.isolation, ready: !failed, reason, capabilities }
  } catch (error) {
    const { message, hint } = asAgentPodError(error)
    return { name, ready: false, reason: hint ? `${message}; ${hint}` : message }
  }
}

/** Figures that nobody measures from outside: what was asked for stands for the limits. */
function unmetered({ resources }: Spec): HostStats {
  const MIB = 1024 * 1024
  return {
    cpuMs: 0,
    memBytes: 0,
    memPeakBytes: 0,
    memLimitBytes: resources.memoryMib * MIB,
    pids: 0,
    pidsLimit: resources.pids,
    oomKills: 0,
    diskBytes: 0,
  }
}

function asker({ owner }: NewSandbox): Principal {
  return { owner: owner ?? LOCAL.owner, isAdmin: owner === undefined }
}
