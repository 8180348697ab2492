/** The environment of a case of the provider contract. Cases use a provider as the engine does. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import type { CallOptions } from '../core/call.ts'
import type { Capabilities } from '../core/capability.ts'
import { type ErrorCode, isAgentPodError } from '../core/error.ts'
import type { Guest, GuestInit } from '../core/guest.ts'
import type { ProcessEvent, ProcessExit } from '../core/guest-process.ts'
import { type OwnerLabel, parseVolumeId, type SandboxId, type SnapshotId, type VolumeId } from '../core/id.ts'
import type {
  Created,
  CreatePlan,
  Observed,
  Pausing,
  Provider,
  RootRef,
  SandboxExit,
  Snapshots,
  Stopping,
  Volumes,
} from '../core/provider.ts'
import { resolveResources } from '../core/resources.ts'

/** What a test runner gives to the cases. */
export interface ContractWorld {
  readonly provider: Provider
  /** The smallest root of the provider, with /bin/sh and the usual commands. */
  readonly root: RootRef
  readonly owner: OwnerLabel
  /** A second owner on the same provider. */
  readonly otherOwner: OwnerLabel
  newId(): SandboxId
  newSnapshotId(): SnapshotId
  /** Unix milliseconds, by the clock that the provider's deadlines follow. */
  now(): number
  /** Lets time pass: waits on a real provider, moves the clock of a fake one. */
  pass(ms: number): Promise<void>
  /** How long after its deadline a sandbox may still exist. */
  readonly graceMs: number
}

export interface ContractCase {
  readonly name: string
  /** The capability that this provider lacks for the case, as a reason; undefined if it can run. */
  readonly needs?: (capabilities: Capabilities) => string | undefined
  run(ctx: ContractContext): Promise<void>
}

export interface ContractCommandResult {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

export const CONTRACT_CALL: CallOptions = { timeoutMs: 30_000 }
export const HOUR_MS = 3_600_000

export const INIT: GuestInit = {
  env: {},
  defaultUser: 'user',
  defaultWorkdir: '',
  sudo: false,
  lease: { remainingMs: HOUR_MS, idleMs: 0 },
}

/**
 * Runs a case, destroys what it created, and fails if something is left. Returns the reason if it was
 * skipped.
 */
export async function runContractCase(one: ContractCase, world: ContractWorld): Promise<string | undefined> {
  const reason = one.needs?.(await world.provider.capabilities(CONTRACT_CALL))
  if (reason !== undefined) return reason
  const ctx = new ContractContext(world)
  let skipped: string | undefined
  try {
    await one.run(ctx)
  } catch (error) {
    if (!(error instanceof Skipped)) throw error
    skipped = error.message
  } finally {
    await ctx.destroyAll()
  }
  for (const owner of [world.owner, world.otherOwner]) {
    assert.deepEqual(await world.provider.list(owner, CONTRACT_CALL), [], 'something is left behind')
    assert.deepEqual(
      (await world.provider.snapshots?.list(owner, CONTRACT_CALL)) ?? [],
      [],
      'a snapshot is left behind',
    )
    assert.deepEqual(
      (await world.provider.volumes?.list(owner, CONTRACT_CALL)) ?? [],
      [],
      'a volume is left behind',
    )
  }
  return skipped
}

/** Thrown by a case that turns out not to apply to this provider. */
class Skipped extends Error {}

/** A case's view of the provider. It records what was created, so that it is always destroyed. */
export class ContractContext {
  readonly world: ContractWorld
  readonly provider: Provider
  readonly #made = new Set<SandboxId>()
  readonly #taken = new Set<SnapshotId>()
  readonly #volumes = new Set<VolumeId>()
  readonly #guests: Guest[] = []

  constructor(world: ContractWorld) {
    this.world = world
    this.provider = world.provider
  }

  plan(over: Partial<CreatePlan> = {}): CreatePlan {
    const sandboxId = over.sandboxId ?? this.world.newId()
    this.#made.add(sandboxId)
    return {
      owner: this.world.owner,
      hostname: 'contract',
      root: this.world.root,
      resources: resolveResources({ memoryMib: 256, cpus: 1, pids: 64 }),
      required: [],
      deadlineAt: this.world.now() + HOUR_MS,
      whenOver: 'destroy',
      mounts: [],
      ...over,
      sandboxId,
    }
  }

  /** How `inspect` shows a running sandbox: with its deadline if the provider enforces one. */
  async running(deadlineAt: number): Promise<Observed> {
    const { deadlines } = await this.provider.capabilities(CONTRACT_CALL)
    return deadlines === 'provider' ? { state: 'running', deadlineAt } : { state: 'running' }
  }

  create(over: Partial<CreatePlan> = {}): Promise<Created> {
    return this.provider.create(this.plan(over), CONTRACT_CALL)
  }

  /** A sandbox that accepts commands. */
  async started(
    over: Partial<CreatePlan> = {},
    init: Partial<GuestInit> = {},
  ): Promise<{ id: SandboxId; guest: Guest }> {
    const created = await this.create(over)
    const guest = this.open(created)
    await guest.configure({ ...INIT, ...init, env: { ...created.env, ...init.env } }, CONTRACT_CALL)
    return { id: created.handle.sandboxId, guest }
  }

  open(created: Created): Guest {
    const guest = this.provider.open(created.handle)
    this.#guests.push(guest)
    return guest
  }

  /** Starts a stopped sandbox and waits until it accepts commands. */
  async startedAgain(plan: CreatePlan): Promise<Guest> {
    const created = await stoppingOf(this.provider).start(plan, CONTRACT_CALL)
    const guest = this.open(created)
    await guest.configure({ ...INIT, env: created.env }, CONTRACT_CALL)
    return guest
  }

  async snapshot(of: SandboxId, id = this.world.newSnapshotId()): Promise<SnapshotId> {
    this.#taken.add(id)
    await snapshotsFor(this.provider).create(id, of, this.world.owner, CONTRACT_CALL)
    return id
  }

  /** A new volume. */
  async volume(o: { readonly owner?: OwnerLabel; readonly sizeBytes?: number } = {}): Promise<VolumeId> {
    const id = parseVolumeId(`vol${this.world.newSnapshotId().slice(4)}`)
    this.#volumes.add(id)
    await volumesOf(this.provider).create(id, o.owner ?? this.world.owner, o.sizeBytes ?? 0, CONTRACT_CALL)
    return id
  }

  /** For conditions that only show in a running sandbox; all others are in `needs`. */
  skip(reason: string): never {
    throw new Skipped(reason)
  }

  inspect(id: SandboxId): Promise<Observed> {
    return this.provider.inspect(id, CONTRACT_CALL)
  }

  async destroyAll(): Promise<void> {
    for (const guest of this.#guests) guest.close()
    await Promise.all([...this.#made].map((id) => this.provider.destroy(id, CONTRACT_CALL)))
    // A later snapshot may depend on an earlier one.
    for (const id of [...this.#taken].reverse()) await this.provider.snapshots?.remove(id, CONTRACT_CALL)
    for (const id of this.#volumes) await this.provider.volumes?.remove(id, CONTRACT_CALL)
  }
}

export function volumesOf({ volumes }: Provider): Volumes {
  assert.ok(volumes, 'this provider keeps no volumes')
  return volumes
}

export function pausingOf({ pausing }: Provider): Pausing {
  assert.ok(pausing, 'this provider pauses nothing')
  return pausing
}

export function stoppingOf({ stopping }: Provider): Stopping {
  assert.ok(stopping, 'this provider stops nothing')
  return stopping
}

/** The reason why a provider cannot run a case, from the capability that it lacks. */
export const NEEDS = {
  pausing: ({ pause }: Capabilities) =>
    pause === 'none' ? 'capability pause: it freezes nothing' : undefined,
  pausingToDisk: ({ pause }: Capabilities) =>
    pause === 'memory' ? undefined : 'capability pause: it writes no memory to disk',
  stopping: ({ stop }: Capabilities) =>
    stop === 'none' ? 'capability stop: it keeps no files of a sandbox without processes' : undefined,
  snapshots: ({ snapshot }: Capabilities) =>
    snapshot === 'none' ? 'capability snapshot: it takes none' : undefined,
  volumes: ({ volumes }: Capabilities) => (volumes ? undefined : 'capability volumes: it keeps no volumes'),
  noVolumes: ({ volumes }: Capabilities) => (volumes ? 'capability volumes: it keeps volumes' : undefined),
  rootMounts: ({ rootMounts }: Capabilities) =>
    rootMounts ? undefined : 'capability rootMounts: it mounts no other roots',
  layers: ({ layers }: Capabilities) => (layers ? undefined : 'capability layers: it takes none'),
  metering: ({ metering }: Capabilities) =>
    metering === 'none' ? 'capability metering: it measures nothing from outside' : undefined,
  deadlines: ({ deadlines }: Capabilities) =>
    deadlines === 'guest' ? 'capability deadlines: the guest alone holds them' : undefined,
  noPausing: ({ pause }: Capabilities) =>
    pause === 'none' ? undefined : 'capability pause: it can freeze a sandbox',
  missingLimits: ({ limits }: Capabilities) =>
    limits === 'enforced' ? 'capability limits: every limit holds, so none is refused' : undefined,
} as const

export function snapshotsFor({ snapshots }: Provider): Snapshots {
  assert.ok(snapshots, 'it takes snapshots')
  return snapshots
}

/** Runs a command through the guest and collects its output. */
export async function runCommand(
  guest: Guest,
  command: string,
  args: readonly string[] = [],
  o: { readonly user?: string } = {},
): Promise<ContractCommandResult> {
  const signal = AbortSignal.timeout(30_000)
  const { text, exit } = await heard(
    guest.processes.start({ command, args, env: {}, stdin: false, ...o }, { signal }),
  )
  return { exitCode: exit.exitCode, stdout: text('stdout'), stderr: text('stderr') }
}

/** Collects the events of a process up to its end. */
export async function heard(
  events: AsyncIterable<ProcessEvent>,
): Promise<{ exit: ProcessExit; text(stream: 'stdout' | 'stderr'): string }> {
  const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  const kinds: string[] = []
  let exit: ProcessExit | undefined
  for await (const event of events) {
    kinds.push(event.kind)
    if (event.kind === 'stdout' || event.kind === 'stderr') output[event.kind].push(event.data)
    if (event.kind === 'end') exit = event.exit
  }
  assert.equal(kinds[0], 'start', 'the events begin with the start')
  assert.ok(exit && kinds.at(-1) === 'end', 'the events end with the end')
  return { exit, text: (stream) => Buffer.concat(output[stream]).toString('utf8') }
}

export async function writeFile(guest: Guest, path: string, content: Buffer): Promise<void> {
  const body = Readable.from([content], { objectMode: false })
  assert.equal(await guest.files.write(path, body, { signal: AbortSignal.timeout(30_000) }), path)
}

export async function readFile(guest: Guest, path: string): Promise<Buffer> {
  const { content } = await guest.files.read(path, { signal: AbortSignal.timeout(30_000) })
  const chunks: Buffer[] = []
  for await (const chunk of content) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

/** The content of a file, or the error code if it cannot be read. */
export async function contentOf(guest: Guest, path: string): Promise<string> {
  try {
    return (await readFile(guest, path)).toString('utf8')
  } catch (error) {
    if (isAgentPodError(error)) return error.code
    throw error
  }
}

export function rejectsWith(work: Promise<unknown>, code: ErrorCode, reason?: string): Promise<void> {
  return assert.rejects(work, (error) => {
    assert.ok(isAgentPodError(error), `not an AgentPodError: ${error}`)
    assert.equal(error.code, code, error.message)
    if (reason !== undefined) assert.equal(error.reason, reason)
    return true
  })
}

/** Waits until the provider reports the exit of a sandbox, while time passes. */
export async function exitWithin(ctx: ContractContext, id: SandboxId, ms: number): Promise<SandboxExit> {
  const exits: SandboxExit[] = []
  const unsubscribe = ctx.provider.onExit((exit) => exits.push(exit))
  try {
    for (let passed = 0; passed < ms; passed += 100) {
      const exit = exits.find(({ sandboxId }) => sandboxId === id)
      if (exit) return exit
      await ctx.world.pass(100)
    }
  } finally {
    unsubscribe()
  }
  throw new assert.AssertionError({ message: `no exit of ${id} was reported within ${ms} ms` })
}
