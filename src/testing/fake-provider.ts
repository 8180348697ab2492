/** A provider in memory: real behaviour on a clock of its own, with faults that a test switches on. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { CallOptions } from '../core/call.ts'
import type { Capabilities, Check } from '../core/capability.ts'
import { AgentPodError, type ErrorCode } from '../core/error.ts'
import type { Guest } from '../core/guest.ts'
import type { OwnerLabel, SandboxId } from '../core/id.ts'
import type {
  Created,
  CreatePlan,
  Exit,
  Handle,
  HostStats,
  Layers,
  Listed,
  Observed,
  Provider,
} from '../core/provider.ts'
import { LIMITED, type Limited, type LimitLevel, type LimitLevels } from '../core/resources.ts'
import type { Clock } from '../util/clock.ts'
import { FakeGuest, FakeInside } from './fake-guest.ts'

const MIB = 1024 * 1024

/** The calls that a fault may be put on. */
export type FaultyCall =
  | 'capabilities'
  | 'create'
  | 'inspect'
  | 'list'
  | 'extend'
  | 'stats'
  | 'destroy'
  | 'clear'
  | 'configure'

export interface FakeProviderOptions {
  readonly clock: Clock
  readonly name?: string | undefined
  readonly limits?: Partial<Record<Limited, LimitLevel['level']>> | undefined
  /** False for a provider that takes no layers. */
  readonly layers?: boolean | undefined
}

interface FakeSandbox {
  readonly plan: CreatePlan
  readonly inside: FakeInside
  deadlineAt: number
  observed: Observed
  cancelDeadline(): void
}

type Fault =
  | { readonly kind: 'fail'; readonly error: AgentPodError; readonly isAfter: boolean; left: number }
  | { readonly kind: 'hang'; readonly released: Promise<void> }

export class FakeProvider implements Provider {
  readonly name: string
  readonly layers?: Layers
  /** Every call in order, as `name id`. */
  readonly calls: string[] = []
  /** Runs at the moment a create begins, before anything exists. */
  onCreate: (plan: CreatePlan) => void = () => undefined
  readonly #options: FakeProviderOptions
  readonly #clock: Clock
  readonly #sandboxes = new Map<SandboxId, FakeSandbox>()
  readonly #layers = new Set<string>()
  readonly #listeners = new Set<(exit: Exit) => void>()
  readonly #faults = new Map<FaultyCall, Fault>()

  constructor(options: FakeProviderOptions) {
    this.#options = options
    this.#clock = options.clock
    this.name = options.name ?? 'fake'
    if (options.layers !== false) this.layers = this.#layerStore()
  }

  // What a test does to it.

  /** The next calls fail: before anything happened, or (`isAfter`) when all is done and only the answer is lost. */
  fail(call: FaultyCall, o: { code?: ErrorCode; times?: number; isAfter?: boolean } = {}): void {
    const error = new AgentPodError({
      code: o.code ?? 'unavailable',
      reason: 'fake.fault',
      message: `${call} was told to fail`,
    })
    const left = o.times ?? Number.POSITIVE_INFINITY
    this.#faults.set(call, { kind: 'fail', error, isAfter: o.isAfter ?? false, left })
  }

  /** Calls wait until the release is called, and then succeed, whoever gave up meanwhile. */
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

  /** The sandbox ends by itself, and whoever listens hears of it. */
  exit(id: SandboxId, how: { oomKilled?: boolean; expired?: boolean; isSilent?: boolean } = {}): void {
    const sandbox = this.#sandboxes.get(id)
    if (sandbox?.observed.state !== 'running') return
    const oomKilled = how.oomKilled ?? false
    const expired = how.expired ?? false
    this.#end(sandbox)
    sandbox.observed = { state: 'exited', oomKilled, expired }
    if (how.isSilent) return
    for (const listener of this.#listeners) listener({ sandboxId: id, oomKilled, expired })
  }

  /** The sandbox is gone as after a reboot: nobody is told. */
  lose(id: SandboxId): void {
    const sandbox = this.#sandboxes.get(id)
    if (sandbox) this.#end(sandbox)
    this.#sandboxes.delete(id)
  }

  /** The inside of a sandbox that exists. */
  inside(id: SandboxId): FakeInside {
    const sandbox = this.#sandboxes.get(id)
    if (sandbox) return sandbox.inside
    throw new Error(`there is no sandbox ${id}`)
  }

  /** Everything that exists, of every owner. */
  get existing(): SandboxId[] {
    return [...this.#sandboxes.keys()]
  }

  // What a provider does.

  capabilities(o: CallOptions): Promise<Capabilities> {
    return this.#call('capabilities', '', o, () => ({
      isolation: 'none',
      limits: LIMITED.every((limit) => this.#level(limit) === 'enforced') ? 'enforced' : 'soft',
      pause: 'none',
      snapshot: 'none',
      layers: this.layers !== undefined,
      hostWritable: true,
      rootless: true,
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
      if (!this.#sandboxes.has(plan.sandboxId)) this.#sandboxes.set(plan.sandboxId, this.#make(plan))
      return {
        handle: handleOf(plan.sandboxId),
        limits: this.#levels(),
        env: { PATH: '/usr/local/bin:/usr/bin:/bin' },
      }
    })
  }

  inspect(id: SandboxId, o: CallOptions): Promise<Observed> {
    return this.#call('inspect', id, o, () => this.#sandboxes.get(id)?.observed ?? { state: 'absent' })
  }

  list(owner: OwnerLabel, o: CallOptions): Promise<readonly Listed[]> {
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

  extend(id: SandboxId, deadlineAt: number, o: CallOptions): Promise<void> {
    return this.#call('extend', id, o, () => this.#arm(this.#need(id), deadlineAt))
  }

  stats(id: SandboxId, o: CallOptions): Promise<HostStats> {
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
      if (this.#sandboxes.size > 0) {
        throw new AgentPodError({ code: 'conflict', reason: 'sandbox.exists', message: 'a sandbox lives' })
      }
      this.#layers.clear()
    })
  }

  onExit(listener: (exit: Exit) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
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

  #make(plan: CreatePlan): FakeSandbox {
    const expire = (): void => this.exit(plan.sandboxId, { expired: true })
    const sandbox: FakeSandbox = {
      plan,
      inside: new FakeInside(this.#clock, expire),
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
    sandbox.cancelDeadline = this.#clock.after(deadlineAt - this.#clock.now(), () =>
      this.exit(sandbox.plan.sandboxId, { expired: true }),
    )
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
        message: `there is no limit on ${missing.join(', ')} here`,
        details: { missing },
      })
    }
    if (plan.root.kind !== 'layers') return
    const unknown = plan.root.layers.find((digest) => !this.#layers.has(digest))
    if (unknown === undefined) return
    throw new AgentPodError({ code: 'not_found', reason: 'layer.unknown', message: `no layer ${unknown}` })
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
      import: async (digest, file) => {
        const found = createHash('sha256')
          .update(await readFile(file))
          .digest('hex')
        if (found !== digest) {
          throw new AgentPodError({
            code: 'data_loss',
            reason: 'layer.digest_mismatch',
            message: `${file} is ${found}`,
          })
        }
        this.#layers.add(digest)
      },
    }
  }
}

function handleOf(sandboxId: SandboxId): Handle {
  return { sandboxId, data: { kind: 'fake' } }
}
