/**
 * Repair by comparison: looks at what records say and what providers have, and finishes or undoes the
 * difference. Runs at start, every few seconds, and when a provider reports that a sandbox ended.
 */
import type { Group } from '../../core/group/group.ts'
import type { SandboxId, SnapshotId, VolumeId } from '../../core/id.ts'
import type { Observed, Provider, SandboxExit } from '../../core/provider.ts'
import type { Ending, Sandbox } from '../../core/sandbox.ts'
import { ignore } from '../../telemetry/log.ts'
import { CALL, CREATE } from '../call.ts'
import type { Context, StillWanted } from '../context.ts'
import { sweepGroups } from '../groups/follow-main.ts'
import { presentLifetime } from '../groups/follower-lifetime.ts'
import { isOver } from '../groups/group.ts'
import { sweepSnapshots } from '../snapshots/snapshot.ts'
import { sweepVolumes } from '../volumes/volume.ts'
import { cleanUp, destroy, destroyLocked, disconnect } from './destroy.ts'
import { finishResume, openConnection, pause } from './pause.ts'
import { unusableSandbox } from './require-sandbox.ts'
import { finishStop, stop } from './stop.ts'

const EXPIRED: Ending = {
  code: 'deadline_exceeded',
  reason: 'sandbox.expired',
  message: 'its time to live is over',
}

/**
 * At start no operation is under way in this process, so every unfinished record is from an earlier server.
 * Marks the providers that records name as used, so that they are swept before requests are accepted.
 */
export async function recoverRecords(ctx: Context): Promise<void> {
  for (const sandbox of ctx.registry.existing()) {
    if (sandbox.state !== 'creating') continue
    ctx.registry.transition(sandbox.id, 'fail', {
      ending: {
        code: 'unavailable',
        reason: 'server.restarted',
        message: 'the server stopped while the sandbox was being created',
      },
    })
  }
  const records = [...ctx.registry.existing(), ...ctx.snapshotRegistry.all(), ...ctx.volumeRegistry.all()]
  for (const record of records) if (ctx.providers.has(record)) ctx.providers.of(record)
}

/** How many rounds pass between two sweeps of a provider that has none of our records and does not answer. */
const ROUNDS_BETWEEN = 10

/**
 * Sweeps one provider again and again. While it does not answer, none of its sandboxes is taken to be gone,
 * and the other providers are swept as usual.
 */
export class Sweeper {
  readonly #ctx: Context
  readonly #provider: Provider
  /** Snapshots of an earlier server, until the first successful sweep has checked them. */
  #earlier: ReadonlySet<SnapshotId>
  /** Volumes of an earlier server, likewise. */
  #earlierVolumes: ReadonlySet<VolumeId>
  #skipped = 0

  constructor(
    ctx: Context,
    provider: Provider,
    earlier: { readonly snapshots: ReadonlySet<SnapshotId>; readonly volumes: ReadonlySet<VolumeId> },
  ) {
    this.#ctx = ctx
    this.#provider = provider
    this.#earlier = earlier.snapshots
    this.#earlierVolumes = earlier.volumes
  }

  /** Whether the provider has anything to look after now. */
  isDue(): boolean {
    const { registry, snapshotRegistry, volumeRegistry, groupRegistry, providers } = this.#ctx
    const isOurs = ({ provider }: { readonly provider: string }): boolean => provider === this.#provider.name
    if (this.#earlier.size > 0 || this.#earlierVolumes.size > 0) return true
    if (registry.existing().some(isOurs)) return true
    const isGroupDue = (group: Group): boolean =>
      group.state === 'destroying' || (group.state === 'ready' && isOver(this.#ctx, group))
    if (groupRegistry.all().some(isGroupDue)) return true
    if (volumeRegistry.all().some((one) => isOurs(one) && one.state === 'removing')) return true
    if (snapshotRegistry.all().some((one) => isOurs(one) && one.state === 'deleting')) return true
    // Sandboxes without a record are looked for less often while the provider does not answer.
    const suspicion = providers.suspicionOf(this.#provider)
    if (suspicion === 'none') return false
    return suspicion === 'fresh' || this.#skipped++ % ROUNDS_BETWEEN === 0
  }

  /** One round. A failed repair of one sandbox does not affect the others. */
  async sweep(): Promise<void> {
    const ctx = this.#ctx
    const provider = this.#provider
    const startedAt = ctx.clock.now()
    const listed = await provider.list(ctx.owner, CALL)
    const found = new Map(listed.map(({ handle, observed }) => [handle.sandboxId, observed]))
    const existing = ctx.registry.existing()
    const known = new Set(existing.map(({ id }) => id))
    // INVARIANT: the record is written before a sandbox is made, so a sandbox without a record is an orphan.
    // Two providers may share one machine, so records of all providers count.
    const orphans = listed.filter(({ handle }) => !known.has(handle.sandboxId))
    const snapshots = sweepSnapshots(ctx, provider, this.#earlier).then(() => {
      this.#earlier = new Set()
    })
    const volumes = sweepVolumes(ctx, provider, this.#earlierVolumes).then(() => {
      this.#earlierVolumes = new Set()
    })
    const repairs = [
      ...existing
        .filter((sandbox) => sandbox.provider === provider.name)
        .map((sandbox) => repair(ctx, sandbox, found.get(sandbox.id) ?? { state: 'absent' })),
      ...orphans.map(({ handle }) => provider.destroy(handle.sandboxId, CALL)),
      snapshots,
      volumes,
    ]
    const failed = (await Promise.allSettled(repairs)).filter(({ status }) => status === 'rejected')
    for (const result of failed) {
      if (result.status === 'rejected')
        ignore(ctx.log, result.reason, 'a repair failed; the next sweep tries again')
    }
    if (failed.length === 0) ctx.providers.clearSuspicion(provider, startedAt)
    // After the repairs, because followers need their connections.
    sweepGroups(ctx)
  }
}

async function repair(ctx: Context, sandbox: Sandbox, observed: Observed): Promise<void> {
  const { id, state } = sandbox
  switch (state) {
    case 'destroying':
      await destroy(ctx, id)
      return
    case 'failed':
      await ctx.lock.run(id, () => cleanUp(ctx, id))
      return
    case 'running':
      if (observed.state === 'running') await checkRunning(ctx, sandbox)
      else await ctx.lock.run(id, () => reconcileState(ctx, id))
      return
    case 'paused':
      // The processes and their memory are gone, as after a reboot; the files are not. Or their memory was
      // saved while the server was gone.
      if (observed.state !== 'paused' || observed.savedBytes !== sandbox.savedBytes)
        await ctx.lock.run(id, () => reconcileState(ctx, id))
      else if (isDueOnDisk(ctx, id)) await saveOverdue(ctx, id)
      return
    case 'stopped':
      if (observed.state !== 'stopped') await ctx.lock.run(id, () => reconcileState(ctx, id))
      return
    case 'creating':
      return
    default:
      // An operation under way holds the lock. If it is over and left this state, it could not finish.
      await ctx.lock.run(id, () => finishInterrupted(ctx, id))
  }
}

/**
 * Checks a sandbox that runs as it should: opens the connection if needed, and looks at its deadline and idle
 * time.
 */
async function checkRunning(ctx: Context, sandbox: Sandbox): Promise<void> {
  if (!ctx.connections.has(sandbox.id)) ctx.connections.set(sandbox.id, openConnection(ctx, sandbox))
  if (isExpired(ctx, sandbox.id)) await onDeadline(ctx, sandbox.id)
  else if (await isIdle(ctx, sandbox)) await pauseIdle(ctx, sandbox)
}

function isExpired(ctx: Context, id: SandboxId): boolean {
  const sandbox = ctx.registry.get(id)
  return sandbox?.state === 'running' && sandbox.deadlineAt <= ctx.clock.now()
}

/** Does what the lifetime says for the deadline; nothing before the deadline. */
export async function onDeadline(ctx: Context, id: SandboxId): Promise<void> {
  const sandbox = ctx.registry.get(id)
  if (sandbox && isExpired(ctx, id)) await applyDeadline(ctx, sandbox, () => isExpired(ctx, id))
}

/** Moves the deadline to now, and does what the lifetime says for it. */
export async function expire(ctx: Context, id: SandboxId): Promise<void> {
  await ctx.lock.run(id, async () => {
    const sandbox = ctx.registry.get(id)
    if (sandbox?.state !== 'running') throw unusableSandbox(id, sandbox)
    ctx.registry.update(id, { deadlineAt: Math.min(sandbox.deadlineAt, ctx.clock.now()) })
  })
  await onDeadline(ctx, id)
}

/**
 * The guest can end an idle sandbox but cannot pause it, so the idle time of a sandbox that is then paused is
 * checked here.
 */
async function isIdle(ctx: Context, sandbox: Sandbox): Promise<boolean> {
  const { id } = sandbox
  const { whenOver, whenIdle = whenOver, idleMs } = presentLifetime(ctx, sandbox)
  if (whenIdle !== 'pause' || idleMs === 0) return false
  const connection = ctx.connections.get(id) ?? ctx.pausedConnections.get(id)
  const stats = await connection?.guest.stats(CALL)
  return stats !== undefined && stats.idleForMs >= idleMs
}

/** Without `pausing`, a sandbox with more time keeps it. */
async function pauseIdle(ctx: Context, sandbox: Sandbox): Promise<void> {
  const isStillIdle: StillWanted = () => isIdle(ctx, sandbox)
  if (ctx.providers.of(sandbox).pausing) await pause(ctx, sandbox.id, { isStillWanted: isStillIdle })
  else if (presentLifetime(ctx, sandbox).whenOver === 'pause')
    await stop(ctx, sandbox.id, EXPIRED, isStillIdle)
}

/**
 * Ends the time of a sandbox. `isStillOver` is checked again under the lock, because an extend or a call may
 * have come first.
 */
async function applyDeadline(ctx: Context, sandbox: Sandbox, isStillOver: StillWanted): Promise<void> {
  const { id } = sandbox
  const { whenOver } = presentLifetime(ctx, sandbox)
  if (whenOver === 'destroy') await destroy(ctx, id, EXPIRED, isStillOver)
  else if (whenOver === 'stop' || !ctx.providers.of(sandbox).pausing)
    await stop(ctx, id, EXPIRED, isStillOver)
  else await pause(ctx, id, { isStillWanted: isStillOver })
}

/** Reports whether a paused sandbox should be on the disk by now, as its lifetime says. */
function isDueOnDisk(ctx: Context, id: SandboxId): boolean {
  const sandbox = ctx.registry.get(id)
  if (sandbox?.state !== 'paused' || sandbox.savedBytes !== undefined) return false
  const { toDiskAfterMs } = sandbox.spec.lifetime
  if (toDiskAfterMs === undefined || !ctx.providers.of(sandbox).pausing?.toDisk) return false
  const failedAt = ctx.failedSaves.get(id) ?? Number.NEGATIVE_INFINITY
  const dueAt = Math.max((sandbox.pausedAt ?? 0) + toDiskAfterMs, failedAt + BETWEEN_SAVES_MS)
  return dueAt <= ctx.clock.now()
}

/** A process that cannot be saved now may have ended later. */
const BETWEEN_SAVES_MS = 10 * 60_000

async function saveOverdue(ctx: Context, id: SandboxId): Promise<void> {
  try {
    await pause(ctx, id, { toDisk: true, isStillWanted: () => isDueOnDisk(ctx, id) })
    ctx.failedSaves.delete(id)
  } catch (error) {
    ctx.failedSaves.set(id, ctx.clock.now())
    ignore(ctx.log, error, `${id} stays paused with its memory; it is saved later`)
  }
}

/** Finishes or undoes an interrupted operation. Called under the lock of the sandbox. */
async function finishInterrupted(ctx: Context, id: SandboxId): Promise<void> {
  const sandbox = ctx.registry.get(id)
  if (!sandbox || sandbox.endedAt !== undefined) return
  const isHalted = sandbox.state === 'stopping' || sandbox.state === 'starting'
  if (!isHalted && sandbox.state !== 'pausing' && sandbox.state !== 'resuming') return
  const observed = await ctx.providers.of(sandbox).inspect(id, CALL)
  // A sandbox that is gone can be neither stopped nor resumed.
  if (observed.state === 'absent') await handleLoss(ctx, sandbox, observed)
  else if (isHalted) await finishStop(ctx, id)
  else if (observed.state === 'paused') recordPaused(ctx, id, observed)
  else if (observed.state === 'running')
    await finishResume(ctx, sandbox, ctx.clock.now() + sandbox.spec.lifetime.ttlMs)
  else await handleLoss(ctx, sandbox, observed)
}

export async function onSandboxExit(ctx: Context, exit: SandboxExit): Promise<void> {
  await ctx.lock.run(exit.sandboxId, () => reconcileState(ctx, exit.sandboxId))
}

/**
 * The provider reports another state than the record. The record follows. Called under the lock of the
 * sandbox.
 */
async function reconcileState(ctx: Context, id: SandboxId): Promise<void> {
  const sandbox = ctx.registry.get(id)
  if (!sandbox || !['running', 'paused', 'stopped'].includes(sandbox.state)) return
  // A sandbox that was created after the listing is missing from it, so ask again.
  const provider = ctx.providers.of(sandbox)
  const observed = await provider.inspect(id, CALL)
  if (observed.state === 'paused' && sandbox.state === 'paused') {
    if (observed.savedBytes === sandbox.savedBytes) return
    if (observed.savedBytes !== undefined) disconnect(ctx, id)
    ctx.registry.update(id, { savedBytes: observed.savedBytes })
    return
  }
  if (observed.state === sandbox.state) return
  if (sandbox.state === 'stopped' && observed.state !== 'absent') {
    // It should have no processes, whatever it looks like; its files are there.
    await provider.stopping?.stop(id, CREATE)
    return
  }
  switch (observed.state) {
    case 'running':
      // It should be paused, so pause it again.
      await provider.pausing?.pause(id, CALL)
      return
    case 'paused':
      recordPause(ctx, sandbox)
      return
    default:
      await handleLoss(ctx, sandbox, observed)
  }
}

/** The end of a pause or resume that was interrupted. */
function recordPaused(ctx: Context, id: SandboxId, { savedBytes }: Observed & { state: 'paused' }): void {
  if (savedBytes !== undefined) disconnect(ctx, id)
  ctx.registry.transition(id, 'paused', { savedBytes })
}

/** The provider paused it at its deadline while no server was there to do it. */
function recordPause(ctx: Context, { id, state }: Sandbox): void {
  if (state !== 'running') return
  const connection = ctx.connections.get(id)
  ctx.connections.delete(id)
  if (connection) ctx.pausedConnections.set(id, connection)
  ctx.registry.transition(id, 'pause')
  ctx.registry.transition(id, 'paused')
}

/**
 * Its processes are gone. If its time was over, it ends as its lifetime says. If it should outlive its time,
 * or was paused, it becomes stopped as long as its files exist. Otherwise it has failed.
 */
async function handleLoss(ctx: Context, sandbox: Sandbox, observed: Observed): Promise<void> {
  const { id, deadlineAt, state } = sandbox
  const { whenOver } = presentLifetime(ctx, sandbox)
  const isOverdue = observed.state === 'exited' && observed.expired
  const wasExpired = state === 'running' && (isOverdue || deadlineAt <= ctx.clock.now())
  const isKept = observed.state === 'exited' || observed.state === 'stopped'
  // Without `stopping` it could not be started again, so the files are useless.
  const hasFiles = isKept && ctx.providers.of(sandbox).stopping !== undefined
  if (hasFiles && (whenOver !== 'destroy' || state !== 'running')) {
    ctx.registry.transition(id, 'stop', { ending: wasExpired || isOverdue ? EXPIRED : lossEnding(observed) })
    await finishStop(ctx, id)
  } else if (wasExpired) {
    await destroyLocked(ctx, sandbox, EXPIRED)
  } else {
    ctx.registry.transition(id, 'fail', { ending: lossEnding(observed) })
    await cleanUp(ctx, id)
  }
}

function lossEnding(observed: Observed): Ending {
  if (observed.state === 'exited' && observed.oomKilled) {
    return { code: 'resource_exhausted', reason: 'sandbox.oom', message: 'it ran out of memory' }
  }
  return { code: 'unavailable', reason: 'sandbox.lost', message: 'its processes ended unexpectedly' }
}
