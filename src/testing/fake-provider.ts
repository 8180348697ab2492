/** A provider in memory: real behavior on a given clock, with faults that a test can inject. */
import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import type { CallOptions } from '../core/call.ts'
import type { Capabilities, Check, Isolation } from '../core/capability.ts'
import { AgentPodError, type ErrorCode } from '../core/error.ts'
import type { Guest } from '../core/guest.ts'
import type { OwnerLabel, SandboxId, SnapshotId, VolumeId } from '../core/id.ts'
import type {
  Created,
  CreatePlan,
  Deadlines,
  Egress,
  Handle,
  HostBase,
  HostStats,
  Layers,
  ListedSandbox,
  Metering,
  Observed,
  Packed,
  Pausing,
  PausingToDisk,
  Provider,
  RootRef,
  SandboxExit,
  Snapshots,
  Stopping,
  StoredSnapshot,
  Volumes,
} from '../core/provider.ts'
import { LIMITED, type Limited, type LimitLevel, type LimitLevels } from '../core/resources.ts'
import type { Clock } from '../util/clock.ts'
import type { FakeMount } from './fake-files.ts'
import { FakeGuest, FakeInside } from './fake-guest.ts'

const MIB = 1024 * 1024

/** The calls that can be made to fail. */
export type FaultyCall =
  | 'capabilities'
  | 'create'
  | 'inspect'
  | 'list'
  | 'extend'
  | 'pause'
  | 'resume'
  | 'save'
  | 'restore'
  | 'stop'
  | 'start'
  | 'snapshot'
  | 'unsnapshot'
  | 'volume'
  | 'unvolume'
  | 'stats'
  | 'destroy'
  | 'clear'
  | 'configure'

export interface FakeProviderOptions {
  readonly clock: Clock
  readonly name?: string | undefined
  readonly isolation?: Isolation | undefined
  readonly limits?: Partial<Record<Limited, LimitLevel['level']>> | undefined
  /** False for a provider without layers. */
  readonly layers?: boolean | undefined
  /** False for a provider without a freezer: no pause, and snapshots of stopped sandboxes only. */
  readonly freezes?: boolean | undefined
  /** Whether it can write the memory of a paused sandbox to the disk. */
  readonly savesMemory?: boolean | undefined
  /** Optional parts of the interface that it lacks. */
  readonly lacks?:
    | readonly ('snapshots' | 'stopping' | 'egress' | 'host' | 'volumes' | 'rootMounts')[]
    | undefined
  /** How long after a deadline it acts on its own. */
  readonly graceMs?: number | undefined
}

interface FakeSandbox {
  plan: CreatePlan
  inside: FakeInside
  deadlineAt: number
  observed: Observed
  cancelDeadline(): void
}

interface FakeSnapshot {
  readonly owner: OwnerLabel
  readonly root: RootRef
  /** Files written over the root; undefined marks a removed file. */
  readonly files: ReadonlyMap<string, Buffer | undefined>
}

interface FakeVolume {
  readonly owner: OwnerLabel
  readonly sizeBytes: number
  readonly files: Map<string, Buffer>
}

type Fault =
  | { readonly kind: 'fail'; readonly error: AgentPodError; readonly isAfter: boolean; left: number }
  | { readonly kind: 'hang'; readonly released: Promise<void> }

export class FakeProvider implements Provider {
  readonly name: string
  readonly layers?: Layers
  readonly snapshots?: Snapshots
  readonly volumes?: Volumes
  readonly pausing?: Pausing
  readonly stopping?: Stopping
  readonly deadlines: Deadlines = {
    extend: (id, at, o) => this.#call('extend', id, o, () => this.#arm(this.#need(id), at)),
  }
  readonly metering: Metering = { stats: (id, o) => this.#stats(id, o) }
  readonly egress?: Egress
  readonly host?: HostBase
  /** Every call in order, as `name id`. */
  readonly calls: string[] = []
  /** Called when a create begins, before anything exists. */
  onCreate: (plan: CreatePlan) => void = () => undefined
  readonly #options: FakeProviderOptions
  readonly #clock: Clock
  readonly #sandboxes = new Map<SandboxId, FakeSandbox>()
  readonly #layers = new Set<string>()
  readonly #snapshots = new Map<SnapshotId, FakeSnapshot>()
  readonly #volumes = new Map<VolumeId, FakeVolume>()
  readonly #listeners = new Set<(exit: SandboxExit) => void>()
  readonly #faults = new Map<FaultyCall, Fault>()

  constructor(options: FakeProviderOptions) {
    this.#options = options
    this.#clock = options.clock
    this.name = options.name ?? 'fake'
    if (options.layers !== false) this.layers = this.#layerStore()
    if (options.freezes !== false) this.pausing = this.#freezer()
    const has = (group: NonNullable<FakeProviderOptions['lacks']>[number]): boolean =>
      !options.lacks?.includes(group)
    if (has('snapshots')) this.snapshots = this.#snapshotStore()
    if (has('volumes')) this.volumes = this.#volumeStore()
    if (has('stopping')) this.stopping = this.#stopper()
    if (has('egress')) this.egress = DOORS
    if (has('host')) this.host = { root: () => HOST_ROOT }
  }

  // Controls for tests.

  /**
   * Makes the next calls fail: before they do anything, or (`isAfter`) after they succeeded and only the
   * answer is lost.
   */
  fail(call: FaultyCall, o: { code?: ErrorCode; times?: number; isAfter?: boolean } = {}): void {
    const error = new AgentPodError({
      code: o.code ?? 'unavailable',
      reason: 'fake.fault',
      message: `${call} was told to fail`,
    })
    const left = o.times ?? Number.POSITIVE_INFINITY
    this.#faults.set(call, { kind: 'fail', error, isAfter: o.isAfter ?? false, left })
  }

  /**
   * Makes calls wait until the returned function is called; then they succeed, even if the caller gave up.
   */
  hang(call: FaultyCall): () => void {
    const { promise, resolve } = Promise.withResolvers<void>()
    const fault: Fault = { kind: 'hang', released: promise }
    this.#faults.set(call, fault)
    return () => {
      if (this.#faults.get(call) === fault) this.#faults.delete(call)
      resolve()
    }
  }

  heal(): void {
    this.#faults.clear()
  }

  /** The sandbox exits on its own, and listeners are notified. */
  exit(id: SandboxId, how: { oomKilled?: boolean; expired?: boolean; isSilent?: boolean } = {}): void {
    const sandbox = this.#sandboxes.get(id)
    if (sandbox?.observed.state !== 'running' && sandbox?.observed.state !== 'paused') return
    // Memory on the disk needs no process.
    if (sandbox.observed.state === 'paused' && sandbox.observed.savedBytes !== undefined) return
    const oomKilled = how.oomKilled ?? false
    const expired = how.expired ?? false
    this.#end(sandbox)
    sandbox.observed = { state: 'exited', oomKilled, expired }
    if (how.isSilent) return
    for (const listener of this.#listeners) listener({ sandboxId: id, oomKilled, expired })
  }

  /** The sandbox disappears as in a reboot: no listener is notified. */
  lose(id: SandboxId): void {
    const sandbox = this.#sandboxes.get(id)
    if (sandbox) this.#end(sandbox)
    this.#sandboxes.delete(id)
  }

  /** All processes end as in a reboot; files and snapshots stay. */
  reboot(): void {
    for (const id of this.#sandboxes.keys()) this.exit(id, { isSilent: true })
  }

  /** The inside of an existing sandbox. */
  inside(id: SandboxId): FakeInside {
    const sandbox = this.#sandboxes.get(id)
    if (sandbox) return sandbox.inside
    throw new Error(`no sandbox ${id}`)
  }

  /** All existing sandboxes, of every owner. */
  get existing(): SandboxId[] {
    return [...this.#sandboxes.keys()]
  }

  /** The answer that `inspect` would give. */
  stateOf(id: SandboxId): Observed['state'] {
    return this.#sandboxes.get(id)?.observed.state ?? 'absent'
  }

  /** All existing snapshots, of every owner. */
  get kept(): SnapshotId[] {
    return [...this.#snapshots.keys()]
  }

  /** All existing volumes, of every owner. */
  get keptVolumes(): VolumeId[] {
    return [...this.#volumes.keys()]
  }

  /** Its files disappear without notice. */
  loseSnapshot(id: SnapshotId): void {
    this.#snapshots.delete(id)
  }

  // The provider interface.

  capabilities(o: CallOptions): Promise<Capabilities> {
    return this.#call('capabilities', '', o, () => ({
      isolation: this.#options.isolation ?? 'container',
      limits: LIMITED.every((limit) => this.#level(limit) === 'enforced') ? 'enforced' : 'soft',
      pause: this.pausing?.toDisk ? 'memory' : this.#freezes ? 'freeze' : 'none',
      snapshot: this.snapshots ? 'disk' : 'none',
      layers: this.layers !== undefined,
      network: this.egress ? 'transparent' : 'none',
      stop: this.stopping ? 'files' : 'none',
      metering: 'host',
      deadlines: 'provider',
      images: false,
      host: this.host !== undefined,
      volumes: this.volumes !== undefined,
      rootMounts: !this.#options.lacks?.includes('rootMounts'),
      docker: (this.#options.isolation ?? 'container') !== 'container',
      notes: ['it is a fake'],
    }))
  }

  async diagnose(_o: CallOptions): Promise<readonly Check[]> {
    return [{ name: 'memory', ok: true, required: true, detail: 'sandboxes of this provider are objects' }]
  }

  create(plan: CreatePlan, o: CallOptions): Promise<Created> {
    this.onCreate(plan)
    return this.#call('create', plan.sandboxId, o, () => {
      this.#check(plan)
      if (!this.#sandboxes.has(plan.sandboxId)) {
        const own = plan.snapshot === undefined ? [] : [plan.snapshot]
        this.#sandboxes.set(plan.sandboxId, this.#make(plan, this.#merged([...overOf(plan.root), ...own])))
      }
      return this.#created(plan)
    })
  }

  #stop(id: SandboxId, o: CallOptions): Promise<void> {
    return this.#call('stop', id, o, () => {
      const sandbox = this.#need(id)
      this.#end(sandbox)
      sandbox.observed = { state: 'stopped' }
    })
  }

  #start(plan: CreatePlan, o: CallOptions): Promise<Created> {
    return this.#call('start', plan.sandboxId, o, () => {
      const sandbox = this.#need(plan.sandboxId)
      if (sandbox.observed.state === 'running') return this.#created(plan)
      if (sandbox.observed.state !== 'stopped') throw wrongState(plan.sandboxId, sandbox.observed.state)
      this.#sandboxes.set(plan.sandboxId, this.#make(plan, sandbox.inside.files.own()))
      return this.#created(plan)
    })
  }

  inspect(id: SandboxId, o: CallOptions): Promise<Observed> {
    return this.#call('inspect', id, o, () => this.#sandboxes.get(id)?.observed ?? { state: 'absent' })
  }

  list(owner: OwnerLabel, o: CallOptions): Promise<readonly ListedSandbox[]> {
    return this.#call('list', '', o, () =>
      [...this.#sandboxes.values()]
        .filter(({ plan }) => plan.owner === owner)
        .map(({ plan, observed }) => ({ handle: handleOf(plan.sandboxId), observed })),
    )
  }

  open(handle: Handle): Guest {
    const guest = new FakeGuest(this.#sandboxes.get(handle.sandboxId)?.inside, this.#clock)
    const configure = guest.configure.bind(guest)
    guest.configure = (init, o) => this.#call('configure', handle.sandboxId, o, () => configure(init, o))
    return guest
  }

  #stats(id: SandboxId, o: CallOptions): Promise<HostStats> {
    return this.#call('stats', id, o, () => {
      const { resources } = this.#need(id).plan
      return {
        cpuMs: 1,
        memBytes: MIB,
        memPeakBytes: 2 * MIB,
        memLimitBytes: resources.memoryMib * MIB,
        pids: 1,
        pidsLimit: resources.pids,
        oomKills: 0,
        diskBytes: 0,
      }
    })
  }

  destroy(id: SandboxId, o: CallOptions): Promise<void> {
    return this.#call('destroy', id, o, () => {
      const sandbox = this.#sandboxes.get(id)
      if (sandbox) this.#end(sandbox)
      this.#sandboxes.delete(id)
    })
  }

  clear(o: CallOptions): Promise<void> {
    return this.#call('clear', '', o, () => {
      if (this.#sandboxes.size > 0 || this.#snapshots.size > 0 || this.#volumes.size > 0) {
        throw new AgentPodError({
          code: 'conflict',
          reason: 'sandbox.exists',
          message: 'sandboxes exist, or volumes',
        })
      }
      this.#layers.clear()
    })
  }

  onExit(listener: (exit: SandboxExit) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  close(): void {
    this.#listeners.clear()
  }

  #stopper(): Stopping {
    return { stop: (id, o) => this.#stop(id, o), start: (plan, o) => this.#start(plan, o) }
  }

  #freezer(): Pausing {
    return {
      pause: (id, o) =>
        this.#call('pause', id, o, () => {
          const sandbox = this.#need(id)
          if (sandbox.observed.state === 'paused') return
          if (sandbox.observed.state !== 'running') throw wrongState(id, sandbox.observed.state)
          sandbox.cancelDeadline()
          sandbox.observed = { state: 'paused' }
        }),
      resume: (id, deadlineAt, o) =>
        this.#call('resume', id, o, () => {
          const sandbox = this.#need(id)
          const { observed } = sandbox
          if (observed.state === 'paused' && observed.savedBytes === undefined)
            sandbox.observed = { state: 'running', deadlineAt }
          if (sandbox.observed.state !== 'running') throw wrongState(id, sandbox.observed.state)
          this.#arm(sandbox, deadlineAt)
        }),
      toDisk: this.#options.savesMemory ? this.#disk() : undefined,
    }
  }

  #disk(): PausingToDisk {
    return {
      save: (id, o) =>
        this.#call('save', id, o, () => {
          const sandbox = this.#need(id)
          const { state } = sandbox.observed
          if (state !== 'running' && state !== 'paused') throw wrongState(id, state)
          sandbox.cancelDeadline()
          sandbox.observed = { state: 'paused', savedBytes: MIB }
          return { savedBytes: MIB }
        }),
      restore: (plan, o) =>
        this.#call('restore', plan.sandboxId, o, () => {
          const sandbox = this.#need(plan.sandboxId)
          const { observed } = sandbox
          if (observed.state === 'running') return this.#created(plan)
          if (observed.state !== 'paused' || observed.savedBytes === undefined)
            throw wrongState(plan.sandboxId, observed.state)
          sandbox.observed = { state: 'running', deadlineAt: plan.deadlineAt }
          this.#arm(sandbox, plan.deadlineAt)
          return this.#created(plan)
        }),
    }
  }

  async #call<T>(call: FaultyCall, id: string, o: CallOptions, work: () => T | Promise<T>): Promise<T> {
    this.calls.push(id ? `${call} ${id}` : call)
    const fault = this.#faults.get(call)
    if (!fault) {
      o.signal?.throwIfAborted()
      return work()
    }
    if (fault.kind === 'hang') {
      await fault.released
      return work()
    }
    fault.left--
    if (fault.left <= 0) this.#faults.delete(call)
    if (fault.isAfter) await work()
    throw fault.error
  }

  #created({ sandboxId }: CreatePlan): Created {
    return {
      handle: handleOf(sandboxId),
      limits: this.#levels(),
      env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      network: { level: this.egress ? 'transparent' : 'none' },
    }
  }

  #make(plan: CreatePlan, files?: ReadonlyMap<string, Buffer>): FakeSandbox {
    const expire = (): void => this.exit(plan.sandboxId, { expired: true })
    const sandbox: FakeSandbox = {
      plan,
      inside: new FakeInside(this.#clock, expire, files, this.#mountsOf(plan)),
      deadlineAt: plan.deadlineAt,
      observed: { state: 'running', deadlineAt: plan.deadlineAt },
      cancelDeadline: () => undefined,
    }
    this.#arm(sandbox, plan.deadlineAt)
    return sandbox
  }

  #arm(sandbox: FakeSandbox, deadlineAt: number): void {
    if (sandbox.observed.state !== 'running') return
    sandbox.cancelDeadline()
    sandbox.deadlineAt = deadlineAt
    sandbox.observed = { state: 'running', deadlineAt }
    const waitMs = deadlineAt - this.#clock.now() + (this.#options.graceMs ?? 0)
    sandbox.cancelDeadline = this.#clock.after(waitMs, () => this.#over(sandbox))
  }

  /** Enforces deadlines on its own, as podhost does while no server runs. */
  #over(sandbox: FakeSandbox): void {
    const { whenOver, sandboxId } = sandbox.plan
    if (whenOver === 'pause' && this.#freezes) {
      sandbox.observed = { state: 'paused' }
      return
    }
    this.exit(sandboxId, { expired: true })
    if (whenOver === 'stop') sandbox.observed = { state: 'stopped' }
  }

  get #freezes(): boolean {
    return this.#options.freezes ?? true
  }

  #end(sandbox: FakeSandbox): void {
    sandbox.cancelDeadline()
    sandbox.inside.end()
  }

  #check(plan: CreatePlan): void {
    const missing = plan.required.filter((limit) => this.#level(limit) !== 'enforced')
    if (missing.length > 0) {
      throw new AgentPodError({
        code: 'unsupported',
        reason: 'limits.unenforced',
        message: `this provider cannot limit ${missing.join(', ')}`,
        details: { missing },
      })
    }
    this.#checkRoot(plan.root)
    this.#mountsOf(plan)
  }

  #mountsOf({ mounts, owner }: CreatePlan): FakeMount[] {
    return mounts.map((mount) => {
      if (mount.kind === 'root') {
        this.#checkRoot(mount.root)
        return { path: mount.path, files: this.#merged(overOf(mount.root)), isReadOnly: true }
      }
      if (mount.kind === 'tmpfs') return { path: mount.path, files: new Map(), isReadOnly: false }
      if (!this.volumes) throw unsupported('volume.unsupported', 'it keeps no volumes')
      const volume = this.#volumes.get(mount.id)
      if (volume?.owner !== owner)
        throw new AgentPodError({
          code: 'not_found',
          reason: 'volume.absent',
          message: `no volume ${mount.id}`,
        })
      return { path: mount.path, files: volume.files, isReadOnly: mount.isReadOnly }
    })
  }

  #volumeStore(): Volumes {
    return {
      create: (id, owner, sizeBytes, o) =>
        this.#call('volume', id, o, () => {
          if (!this.#volumes.has(id)) this.#volumes.set(id, { owner, sizeBytes, files: new Map() })
          return { limit: { level: this.#level('disk') } }
        }),
      list: (owner, o) =>
        this.#call('list', '', o, () =>
          [...this.#volumes].filter(([, volume]) => volume.owner === owner).map(([id]) => id),
        ),
      remove: (id, o) =>
        this.#call('unvolume', id, o, () => {
          const plans = [...this.#sandboxes.values()].map(({ plan }) => plan)
          if (plans.some(({ mounts }) => mounts.some((one) => one.kind === 'volume' && one.id === id)))
            throw new AgentPodError({ code: 'conflict', reason: 'volume.used', message: `${id} is used` })
          this.#volumes.delete(id)
        }),
      stats: (id, o) =>
        this.#call('stats', id, o, () => {
          const files = this.#volumes.get(id)?.files
          if (!files)
            throw new AgentPodError({
              code: 'not_found',
              reason: 'volume.absent',
              message: `no volume ${id}`,
            })
          return { usedBytes: [...files.values()].reduce((sum, data) => sum + data.length, 0) }
        }),
    }
  }

  #checkRoot(root: RootRef): void {
    for (const id of overOf(root)) this.#needSnapshot(id)
    const unknown = layersOf(root).find((digest) => !this.#layers.has(digest))
    if (unknown === undefined) return
    throw new AgentPodError({ code: 'not_found', reason: 'layer.unknown', message: `no layer ${unknown}` })
  }

  /** The files of snapshots, each on top of the ones before. */
  #merged(ids: readonly SnapshotId[]): Map<string, Buffer> {
    const merged = new Map<string, Buffer>()
    for (const [path, data] of ids.flatMap((id) => [...this.#needSnapshot(id).files])) {
      if (data === undefined) merged.delete(path)
      else merged.set(path, data)
    }
    return merged
  }

  /** All layers and snapshots in use. */
  get #roots(): readonly RootRef[] {
    const sandboxes = [...this.#sandboxes.values()].flatMap(({ plan: { root, mounts } }) => [
      root,
      ...mounts.flatMap((one) => (one.kind === 'root' ? [one.root] : [])),
    ])
    return [...sandboxes, ...[...this.#snapshots.values()].map(({ root }) => root)]
  }

  #need(id: SandboxId): FakeSandbox {
    const sandbox = this.#sandboxes.get(id)
    if (sandbox) return sandbox
    throw new AgentPodError({ code: 'not_found', reason: 'sandbox.absent', message: `no sandbox ${id}` })
  }

  #level(limit: Limited): LimitLevel['level'] {
    return this.#options.limits?.[limit] ?? 'enforced'
  }

  #levels(): LimitLevels {
    const entries = LIMITED.map((limit) => [limit, { level: this.#level(limit) }])
    return Object.fromEntries(entries) as LimitLevels
  }

  #layerStore(): Layers {
    return {
      has: async (digest) => this.#layers.has(digest),
      import: async (digest, content) => {
        const found = createHash('sha256')
          .update(await buffer(content))
          .digest('hex')
        if (found !== digest) {
          throw new AgentPodError({
            code: 'data_loss',
            reason: 'layer.digest_mismatch',
            message: `the content is ${found}`,
          })
        }
        this.#layers.add(digest)
      },
      remove: async (digest) => {
        if (this.#roots.some((root) => layersOf(root).includes(digest)))
          throw new AgentPodError({ code: 'conflict', reason: 'layer.used', message: `${digest} is used` })
        this.#layers.delete(digest)
      },
      export: async (digest) => packedOf(Buffer.from(`layer ${digest}`)),
      root: (digests) => ({ kind: 'layers', layers: digests }),
      of: layersOf,
    }
  }

  #snapshotStore(): Snapshots {
    return {
      create: (id, sandboxId, owner, o) =>
        this.#call('snapshot', id, o, () => {
          const known = this.#snapshots.get(id)
          if (known) return keptOf(known)
          const { observed, inside, plan } = this.#need(sandboxId)
          if (observed.state === 'exited' || observed.state === 'absent')
            throw wrongState(sandboxId, observed.state)
          if (observed.state === 'running' && !this.#freezes)
            throw unsupported('snapshot.live_unsupported', 'a running sandbox cannot stand still here')
          const files = difference(this.#merged(overOf(plan.root)), inside.files.own())
          const snapshot = { owner, root: plan.root, files }
          this.#snapshots.set(id, snapshot)
          return keptOf(snapshot)
        }),
      list: (owner, o) =>
        this.#call('list', '', o, () =>
          [...this.#snapshots].filter(([, snapshot]) => snapshot.owner === owner).map(([id]) => id),
        ),
      remove: (id, o) =>
        this.#call('unsnapshot', id, o, () => {
          if (this.#roots.some((root) => overOf(root).includes(id)))
            throw new AgentPodError({ code: 'conflict', reason: 'snapshot.used', message: `${id} is used` })
          this.#snapshots.delete(id)
        }),
      export: async (id) => {
        const files = [...this.#needSnapshot(id).files].map(([path, data]) => [
          path,
          data?.toString('base64') ?? null,
        ])
        return packedOf(Buffer.from(JSON.stringify(files)))
      },
      import: async (id, owner, { content, digest, root }) => {
        this.#checkRoot(root)
        const data = await buffer(content)
        if (packedOf(data).digest !== digest)
          throw new AgentPodError({ code: 'data_loss', reason: 'snapshot.damaged', message: 'other content' })
        const entries = JSON.parse(data.toString('utf8')) as [string, string | null][]
        const files = new Map(
          entries.map(([path, data]) => [path, data === null ? undefined : Buffer.from(data, 'base64')]),
        )
        const snapshot = { owner, root, files }
        this.#snapshots.set(id, snapshot)
        return keptOf(snapshot)
      },
    }
  }

  #needSnapshot(id: SnapshotId): FakeSnapshot {
    const snapshot = this.#snapshots.get(id)
    if (snapshot) return snapshot
    throw new AgentPodError({ code: 'not_found', reason: 'snapshot.absent', message: `no snapshot ${id}` })
  }
}

const DOORS: Egress = { door: ({ sandboxId }) => ({ kind: 'socket', path: `/fake/${sandboxId}.out` }) }
const HOST_ROOT: RootRef = { kind: 'host' }

function layersOf({ layers }: RootRef): readonly string[] {
  return Array.isArray(layers) ? layers : []
}

function packedOf(content: Buffer): Packed {
  const digest = createHash('sha256').update(content).digest('hex')
  return { digest, sizeBytes: content.length, content: Readable.from([content], { objectMode: false }) }
}

function overOf({ over = [] }: RootRef): readonly SnapshotId[] {
  return over
}

/** The changes that turn the lower files into the upper ones. */
function difference(
  below: ReadonlyMap<string, Buffer>,
  above: ReadonlyMap<string, Buffer>,
): Map<string, Buffer | undefined> {
  const changed = new Map<string, Buffer | undefined>()
  for (const [path, data] of above) if (below.get(path) !== data) changed.set(path, data)
  for (const path of below.keys()) if (!above.has(path)) changed.set(path, undefined)
  return changed
}

function keptOf({ files, root }: FakeSnapshot): StoredSnapshot {
  return { sizeBytes: [...files.values()].reduce((sum, data) => sum + (data?.length ?? 0), 0), root }
}

function wrongState(id: SandboxId, state: string): AgentPodError {
  return new AgentPodError({ code: 'conflict', reason: 'sandbox.state', message: `${id} is ${state}` })
}

function unsupported(reason: string, message: string): AgentPodError {
  return new AgentPodError({ code: 'unsupported', reason, message })
}

function handleOf(sandboxId: SandboxId): Handle {
  return { sandboxId, data: { kind: 'fake' } }
}
