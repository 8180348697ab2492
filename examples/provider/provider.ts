/**
 * A provider that runs each sandbox in namespaces of this machine, with the tools of util-linux. podd runs in
 * them, on a root file system in memory. It is the example of CONTRIBUTING.md, "A new provider": it has the
 * required members, and the optional groups that are easy to implement.
 */
import { randomBytes } from 'node:crypto'
import { watch } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  AgentPodError,
  type CallOptions,
  type Capabilities,
  type Check,
  type Created,
  type CreatePlan,
  type Guest,
  type Handle,
  type LimitLevels,
  type ListedSandbox,
  multiplexedStreams,
  type Observed,
  type OwnerLabel,
  type PoddStreams,
  type Provider,
  parseSandboxId,
  poddGuest,
  type SandboxExit,
  type SandboxId,
} from 'agentpod/provider'
import { dial, launch, missingTools } from './launch.ts'
import { isAlive, kill, Records } from './records.ts'

export interface NamespacesOptions {
  /** The directory of its records; nothing else may use it. */
  readonly directory: string
  /** The program podd. */
  readonly podd: string
}

/** podd's exit code when its lease expires (spec/guest-protocol.md). */
const EXPIRED = 79
/** How long the supervisor may take to record that podd ended. */
const SETTLE_MS = 1000
const UNDO_MS = 10_000

const CAPABILITIES: Capabilities = {
  isolation: 'container',
  limits: 'soft',
  pause: 'none',
  stop: 'none',
  snapshot: 'none',
  network: 'proxy',
  metering: 'none',
  deadlines: 'guest',
  layers: false,
  images: false,
  host: true,
  volumes: false,
  rootMounts: false,
  docker: false,
  notes: ['memory, processors and processes are not limited: this provider uses no cgroups'],
}
const NO_CGROUPS = { level: 'none', reason: 'this provider uses no cgroups' } as const
const LIMITS: LimitLevels = {
  memory: NO_CGROUPS,
  swap: NO_CGROUPS,
  cpus: NO_CGROUPS,
  pids: NO_CGROUPS,
  files: { level: 'enforced' },
  disk: { level: 'enforced' },
}
const PROXY = { level: 'proxy', reason: 'connections that ignore the proxy variables get nowhere' } as const

export function namespaces(options: NamespacesOptions): Provider {
  return new Namespaces(options)
}

class Namespaces implements Provider {
  readonly name = 'namespaces'
  readonly #podd: string
  readonly #records: Records
  /** podd serves one connection, which the guests of a sandbox and the egress process share. */
  readonly #streams = new Map<SandboxId, PoddStreams>()

  constructor({ directory, podd }: NamespacesOptions) {
    this.#podd = podd
    this.#records = new Records(directory)
  }

  /** A provider that rejects here is listed as not ready, with this message. */
  async capabilities(): Promise<Capabilities> {
    const failed = (await this.diagnose()).find(({ ok }) => !ok)
    if (!failed) return CAPABILITIES
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'namespaces.missing',
      message: failed.detail,
      hint: failed.hint,
    })
  }

  async diagnose(): Promise<Check[]> {
    const isRoot = process.getuid?.() === 0
    const missing = missingTools()
    return [
      {
        name: 'root',
        ok: isRoot,
        required: true,
        detail: isRoot ? 'the server runs as root' : 'the server does not run as root',
        hint: isRoot ? undefined : 'start it as root: only root can map arbitrary users into a namespace',
      },
      {
        name: 'tools',
        ok: missing.length === 0,
        required: true,
        detail: missing.length === 0 ? 'all there' : `${missing.join(', ')} not found`,
        hint: missing.length === 0 ? undefined : 'install util-linux, hostname and iproute2',
      },
    ]
  }

  async create(plan: CreatePlan, o: CallOptions): Promise<Created> {
    refuseWhatCannotBe(plan)
    const { sandboxId } = plan
    this.#records.prepare()
    if (!(await this.#records.read(sandboxId))) {
      const token = randomBytes(32).toString('hex')
      try {
        await launch(this.#records, this.#podd, plan, token, callSignal(o))
      } catch (error) {
        // Clean up even if the caller's time is over.
        await this.destroy(sandboxId, { timeoutMs: UNDO_MS })
        throw error
      }
    }
    return {
      handle: handleOf(sandboxId),
      limits: LIMITS,
      env: { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin' },
      network: PROXY,
    }
  }

  async inspect(id: SandboxId): Promise<Observed> {
    const entry = await this.#records.read(id)
    if (!entry) return { state: 'absent' }
    if (isAlive(entry)) return { state: 'running' }
    return { state: 'exited', oomKilled: false, expired: (await this.#ended(id)) === EXPIRED }
  }

  async list(owner: OwnerLabel): Promise<ListedSandbox[]> {
    const ours = (await this.#records.all()).filter((entry) => entry.owner === owner)
    const listed = await Promise.all(
      ours.map(async ({ sandboxId }) => ({
        handle: handleOf(sandboxId),
        observed: await this.inspect(sandboxId),
      })),
    )
    return listed.filter(({ observed }) => observed.state !== 'absent')
  }

  open({ sandboxId }: Handle): Guest {
    return poddGuest(this.#streamsTo(sandboxId))
  }

  /**
   * podd is the first process of its namespace: when it ends, the kernel kills the others and removes their
   * mounts.
   */
  async destroy(id: SandboxId, o: CallOptions): Promise<void> {
    this.#streams.get(id)?.close()
    this.#streams.delete(id)
    const entry = await this.#records.read(id)
    if (entry) {
      kill(entry)
      for (const signal = callSignal(o); isAlive(entry); ) await sleep(5, undefined, { signal })
      await this.#ended(id)
    }
    await this.#records.remove(id)
  }

  /** This provider caches nothing, so there is nothing to remove. */
  async clear(): Promise<void> {
    if ((await this.#records.all()).length > 0) {
      throw new AgentPodError({
        code: 'conflict',
        reason: 'sandbox.exists',
        message: 'a sandbox exists',
        hint: 'destroy the sandboxes first',
      })
    }
  }

  onExit(listener: (exit: SandboxExit) => void): () => void {
    const tell = async (id: SandboxId): Promise<void> => {
      const observed = await this.inspect(id)
      if (observed.state === 'exited')
        listener({ sandboxId: id, oomKilled: false, expired: observed.expired })
    }
    this.#records.prepare()
    const watcher = watch(this.#records.directory, { persistent: false }, (_, file) => {
      const [id = '', ending] = (file ?? '').split('.', 2)
      // The engine's next `inspect` finds exits that are missed here.
      if (ending === 'exit') tell(parseSandboxId(id)).catch(() => undefined)
    })
    return () => watcher.close()
  }

  close(): void {
    for (const streams of this.#streams.values()) streams.close()
    this.#streams.clear()
  }

  readonly host = { root: () => ({ base: 'host' }) }

  readonly egress = {
    door: ({ sandboxId }: Handle) => ({
      kind: 'stream' as const,
      dial: (o: CallOptions) => this.#streamsTo(sandboxId).open('egress', callSignal(o)),
    }),
  }

  #streamsTo(id: SandboxId): PoddStreams {
    const known = this.#streams.get(id)
    if (known) return known
    const streams = multiplexedStreams(async () => {
      const entry = await this.#records.read(id)
      if (!entry) throw new Error('no such sandbox')
      return dial(entry, this.#podd)
    })
    this.#streams.set(id, streams)
    return streams
  }

  /** The exit code of podd, which has ended; undefined if the supervisor did not record it. */
  async #ended(id: SandboxId): Promise<number | undefined> {
    for (const end = Date.now() + SETTLE_MS; Date.now() < end; await sleep(5)) {
      const code = await this.#records.exitCode(id)
      if (code !== undefined) return code
    }
    return undefined
  }
}

function handleOf(sandboxId: SandboxId): Handle {
  return { sandboxId, data: {} }
}

function callSignal({ signal, timeoutMs }: CallOptions): AbortSignal {
  const late = AbortSignal.timeout(timeoutMs)
  return signal ? AbortSignal.any([signal, late]) : late
}

function refuseWhatCannotBe({ root, required, mounts }: CreatePlan): void {
  if (mounts.length > 0) {
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'namespaces.mounts',
      message: 'the provider namespaces mounts neither volumes nor other roots',
      hint: 'leave them out, or choose another provider',
    })
  }
  const missing = required.filter((limit) => LIMITS[limit].level !== 'enforced')
  if (missing.length > 0) {
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'limits.unenforced',
      message: `the provider namespaces cannot limit ${missing.join(', ')}`,
      hint: 'leave the limit out, or choose another provider',
    })
  }
  if (root['base'] !== 'host' || (root.over?.length ?? 0) > 0) {
    throw new AgentPodError({
      code: 'not_found',
      reason: 'root.unknown',
      message: 'the provider namespaces has no such root file system',
      hint: 'use the base host: the tools of this machine',
    })
  }
}
