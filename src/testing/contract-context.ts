/** What a case of the provider contract works with. The cases use a provider as the engine does. */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import type { CallOptions } from '../core/call.ts'
import type { Capabilities } from '../core/capability.ts'
import { type ErrorCode, isAgentPodError } from '../core/error.ts'
import type { Guest, GuestInit } from '../core/guest.ts'
import type { ProcessEvent, ProcessExit } from '../core/guest-process.ts'
import type { OwnerLabel, SandboxId, SnapshotId } from '../core/id.ts'
import type {
  Created,
  CreatePlan,
  Exit,
  Observed,
  Pausing,
  Provider,
  RootRef,
  Snapshots,
  Stopping,
} from '../core/provider.ts'
import { resolveResources } from '../core/resources.ts'

/** What a runner gives to the cases. */
export interface ContractWorld {
  readonly provider: Provider
  /** The smallest root that the provider has. It has /bin/sh and the usual commands. */
  readonly root: RootRef
  readonly owner: OwnerLabel
  /** A second owner on the same provider. */
  readonly otherOwner: OwnerLabel
  newId(): SandboxId
  newSnapshotId(): SnapshotId
  /** Unix milliseconds, by the clock that the provider's deadlines follow. */
  now(): number
  /** Lets time pass: a wait on a real provider, a step of the clock on a fake. */
  pass(ms: number): Promise<void>
  /** How long after a deadline a sandbox may still be there. */
  readonly graceMs: number
}

export interface ContractCase {
  readonly name: string
  /** Why this provider cannot run the case, by the capability that decides it, or undefined when it can. */
  readonly needs?: (capabilities: Capabilities) => string | undefined
  run(ctx: ContractContext): Promise<void>
}

export interface CommandResult {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

export const CALL: CallOptions = { timeoutMs: 30_000 }
export const HOUR_MS = 3_600_000

export const INIT: GuestInit = {
  env: {},
  defaultUser: 'user',
  defaultWorkdir: '',
  sudo: false,
  lease: { remainingMs: HOUR_MS, idleMs: 0 },
}

/** Runs one case, then destroys what it made and fails when something is left. Answers the reason when it was skipped. */
export async function runContractCase(one: ContractCase, world: ContractWorld): Promise<string | undefined> {
  const reason = one.needs?.(await world.provider.capabilities(CALL))
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
    assert.deepEqual(await world.provider.list(owner, CALL), [], 'something is left behind')
    assert.deepEqual(
      (await world.provider.snapshots?.list(owner, CALL)) ?? [],
      [],
      'a snapshot is left behind',
    )
  }
  return skipped
}

/** Ends a case that turns out not to be for this provider. */
class Skipped extends Error {}

/** One case's view of the provider: it remembers what was made, so that it is destroyed whatever happens. */
export class ContractContext {
  readonly world: ContractWorld
  readonly provider: Provider
  readonly #made = new Set<SandboxId>()
  readonly #taken = new Set<SnapshotId>()
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
      ...over,
      sandboxId,
    }
  }

  /** What a running sandbox is seen as: with its deadline where the provider holds one. */
  async running(deadlineAt: number): Promise<Observed> {
    const { deadlines } = await this.provider.capabilities(CALL)
    return deadlines === 'provider' ? { state: 'running', deadlineAt } : { state: 'running' }
  }

  create(over: Partial<CreatePlan> = {}): Promise<Created> {
    return this.provider.create(this.plan(over), CALL)
  }

  /** A sandbox that takes commands. */
  async started(
    over: Partial<CreatePlan> = {},
    init: Partial<GuestInit> = {},
  ): Promise<{ id: SandboxId; guest: Guest }> {
    const created = await this.create(over)
    const guest = this.open(created)
    await guest.configure({ ...INIT, ...init, env: { ...created.env, ...init.env } }, CALL)
    return { id: created.handle.sandboxId, guest }
  }

  open(created: Created): Guest {
    const guest = this.provider.open(created.handle)
    this.#guests.push(guest)
    return guest
  }

  /** Runs a stopped one again, until it takes commands. */
  async startedAgain(plan: CreatePlan): Promise<Guest> {
    const created = await stoppingOf(this.provider).start(plan, CALL)
    const guest = this.open(created)
    await guest.configure({ ...INIT, env: created.env }, CALL)
    return guest
  }

  async snapshot(of: SandboxId, id = this.world.newSnapshotId()): Promise<SnapshotId> {
    this.#taken.add(id)
    await snapshotsOf(this.provider).create(id, of, this.world.owner, CALL)
    return id
  }

  /** For what only a sandbox can tell; everything else is in `needs`. */
  skip(reason: string): never {
    throw new Skipped(reason)
  }

  inspect(id: SandboxId): Promise<Observed> {
    return this.provider.inspect(id, CALL)
  }

  async destroyAll(): Promise<void> {
    for (const guest of this.#guests) guest.close()
    await Promise.all([...this.#made].map((id) => this.provider.destroy(id, CALL)))
    // A later one may stand on an earlier one.
    for (const id of [...this.#taken].reverse()) await this.provider.snapshots?.remove(id, CALL)
  }
}

export function pausingOf({ pausing }: Provider): Pausing {
  assert.ok(pausing, 'this provider pauses nothing')
  return pausing
}

export function stoppingOf({ stopping }: Provider): Stopping {
  assert.ok(stopping, 'this provider stops nothing')
  return stopping
}

/** The reason why a provider cannot run a case, by the capability that decides it. */
export const NEEDS = {
  pausing: ({ pause }: Capabilities) =>
    pause === 'none' ? 'capability pause: it freezes nothing' : undefined,
  stopping: ({ stop }: Capabilities) =>
    stop === 'none' ? 'capability stop: it keeps no files of a sandbox without processes' : undefined,
  snapshots: ({ snapshot }: Capabilities) =>
    snapshot === 'none' ? 'capability snapshot: it takes none' : undefined,
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

export function snapshotsOf({ snapshots }: Provider): Snapshots {
  assert.ok(snapshots, 'it takes snapshots')
  return snapshots
}

/** Runs a command through the guest and collects what it says. */
export async function runCommand(
  guest: Guest,
  command: string,
  args: readonly string[] = [],
  o: { readonly user?: string } = {},
): Promise<CommandResult> {
  const signal = AbortSignal.timeout(30_000)
  const { text, exit } = await heard(
    guest.processes.start({ command, args, env: {}, stdin: false, ...o }, { signal }),
  )
  return { exitCode: exit.exitCode, stdout: text('stdout'), stderr: text('stderr') }
}

/** What the events of a process say, to its end. */
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

/** What is in a file, or the code of the error where it cannot be read. */
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

/** Waits for the provider's word that a sandbox ended, while time passes. */
export async function exitWithin(ctx: ContractContext, id: SandboxId, ms: number): Promise<Exit> {
  const exits: Exit[] = []
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
