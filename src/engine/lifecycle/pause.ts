/** Pausing and resuming: memory is kept, frozen or on the disk, and no time counts meanwhile. */
import { AgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import type { PausingToDisk } from '../../core/provider.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { ignore } from '../../telemetry/log.ts'
import { failpoint } from '../../util/failpoint.ts'
import { CALL, COPY } from '../call.ts'
import type { Context, GuestConnection, StillWanted } from '../context.ts'
import { presentLifetime } from '../groups/follower-lifetime.ts'
import { openLink } from '../network/egress-link.ts'
import { mountsOf } from '../volumes/volume.ts'
import { activate, createPlan } from './create.ts'
import { disconnect } from './destroy.ts'
import { connectionTo } from './guest-connection.ts'
import { leaseOf } from './lease.ts'
import { requireSandbox } from './require-sandbox.ts'

export interface PauseWish {
  /** Writes the memory to the disk and ends the processes, also of a sandbox that is paused already. */
  readonly toDisk?: boolean | undefined
  readonly isStillWanted?: StillWanted | undefined
}

/**
 * Idempotent. Open streams stay open and are silent until the sandbox is resumed; to disk they are cut, and
 * clients continue at their offsets.
 */
export async function pause(ctx: Context, id: SandboxId, o: PauseWish = {}): Promise<Sandbox> {
  const { isStillWanted } = o
  const pausing = ctx.providers.group(requireSandbox(ctx, id), 'pausing')
  const disk = o.toDisk ? requireDisk(ctx, id, pausing.toDisk) : undefined
  return ctx.lock.run(id, async () => {
    const sandbox = requireSandbox(ctx, id)
    if (sandbox.state === 'paused') return disk ? savePaused(ctx, sandbox, disk, isStillWanted) : sandbox
    const connection = ctx.connections.get(id)
    // From here on calls wait for the pause to end and then wake the sandbox. A call that was let in now
    // would be frozen halfway.
    ctx.connections.delete(id)
    if (connection) ctx.pausedConnections.set(id, connection)
    try {
      if (isStillWanted && !(await isStillWanted())) return reopen(ctx, sandbox)
      ctx.registry.transition(id, 'pause')
      failpoint('pause.intended')
    } catch (error) {
      reopen(ctx, sandbox)
      throw error
    }
    let saved: { readonly savedBytes: number } | undefined
    try {
      // The clock of a frozen guest runs on; with a lease it would end the sandbox as soon as it is resumed.
      await connection?.guest.lease?.renew({ remainingMs: 0, idleMs: 0 }, CALL)
      if (disk) saved = await disk.save(id, COPY)
      else await pausing.pause(id, CALL)
    } catch (error) {
      await undoPause(ctx, id)
      throw error
    }
    failpoint('pause.frozen')
    if (saved) disconnect(ctx, id)
    return ctx.registry.transition(id, 'paused', saved)
  })
}

function requireDisk(ctx: Context, id: SandboxId, disk: PausingToDisk | undefined): PausingToDisk {
  if (disk) return disk
  const { provider } = requireSandbox(ctx, id)
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'pause.to_disk_unsupported',
    message: `the provider ${provider} cannot write the memory of a sandbox to disk`,
    hint: 'create it with `--isolation gvisor` or `vm`, pause it without `--to-disk`, or use `agentpod stop`, which keeps its files',
  })
}

/** Called under the lock of the sandbox. On failure it stays paused, with its memory. */
async function savePaused(
  ctx: Context,
  sandbox: Sandbox,
  disk: PausingToDisk,
  isStillWanted: StillWanted | undefined,
): Promise<Sandbox> {
  const { id } = sandbox
  if (sandbox.savedBytes !== undefined || (isStillWanted && !(await isStillWanted()))) return sandbox
  const saved = await disk.save(id, COPY)
  failpoint('disk.saved')
  disconnect(ctx, id)
  return ctx.registry.update(id, saved)
}

/** Nothing was changed: calls are let in again. */
function reopen(ctx: Context, sandbox: Sandbox): Sandbox {
  const connection = ctx.pausedConnections.get(sandbox.id)
  ctx.pausedConnections.delete(sandbox.id)
  if (connection) ctx.connections.set(sandbox.id, connection)
  return sandbox
}

/** After a failed pause the sandbox runs again. If that fails too, the sweep repairs it. */
async function undoPause(ctx: Context, id: SandboxId): Promise<void> {
  try {
    const sandbox = requireSandbox(ctx, id)
    await finishResume(ctx, sandbox, sandbox.deadlineAt)
  } catch (error) {
    ignore(ctx.log, error, `the sweep will undo the failed pause of ${id}`)
  }
}

/** Idempotent. The sandbox gets `ttlMs` from now, or its full time to live. */
export async function resume(ctx: Context, id: SandboxId, ttlMs?: number): Promise<Sandbox> {
  return ctx.lock.run(id, async () => {
    const before = requireSandbox(ctx, id)
    if (before.state === 'running') return before
    const sandbox = ctx.registry.transition(id, 'resume')
    failpoint('resume.intended')
    const deadlineAt = ctx.clock.now() + (ttlMs ?? sandbox.spec.lifetime.ttlMs)
    return finishResume(ctx, sandbox, deadlineAt)
  })
}

/** From `resuming`, or from a failed `pausing`, to `running`. Called under the lock of the sandbox. */
export async function finishResume(ctx: Context, sandbox: Sandbox, deadlineAt: number): Promise<Sandbox> {
  const { id } = sandbox
  if (sandbox.savedBytes !== undefined) return continueSaved(ctx, sandbox, deadlineAt)
  await ctx.providers.group(sandbox, 'pausing').resume(id, deadlineAt, CALL)
  failpoint('resume.thawed')
  const connection = ctx.pausedConnections.get(id) ?? ctx.connections.get(id) ?? openConnection(ctx, sandbox)
  await connection.guest.lease?.renew(
    leaseOf(presentLifetime(ctx, sandbox), deadlineAt - ctx.clock.now()),
    CALL,
  )
  const running = ctx.registry.transition(id, 'resumed', { deadlineAt })
  ctx.pausedConnections.delete(id)
  ctx.connections.set(id, connection)
  return running
}

/** On failure it is paused as before, with its memory on the disk. */
async function continueSaved(ctx: Context, sandbox: Sandbox, deadlineAt: number): Promise<Sandbox> {
  const { id, spec } = sandbox
  const disk = requireDisk(ctx, id, ctx.providers.group(sandbox, 'pausing').toDisk)
  const plan = createPlan(
    ctx,
    { ...sandbox, deadlineAt },
    { root: sandbox.root ?? {}, required: [], mounts: mountsOf(spec) },
  )
  try {
    const created = await disk.restore(plan, COPY)
    failpoint('disk.restored')
    return await activate(ctx, sandbox, created, { deadlineAt, event: 'resumed', isContinued: true })
  } catch (error) {
    await undoResume(ctx, sandbox)
    throw error
  }
}

/** If the sandbox runs, or cannot be asked, the sweep finishes what was begun. */
async function undoResume(ctx: Context, sandbox: Sandbox): Promise<void> {
  const { id } = sandbox
  try {
    const observed = await ctx.providers.of(sandbox).inspect(id, CALL)
    if (observed.state === 'paused')
      ctx.registry.transition(id, 'paused', { savedBytes: observed.savedBytes })
  } catch (error) {
    ignore(ctx.log, error, `the sweep will undo the failed resume of ${id}`)
  }
}

/** Connects to a sandbox that an earlier server started, and opens its egress link. */
export function openConnection(ctx: Context, sandbox: Sandbox): GuestConnection {
  const { id, handle } = sandbox
  if (!handle) {
    throw new AgentPodError({
      code: 'internal',
      reason: 'sandbox.handle',
      message: `the record of ${id} has no handle`,
    })
  }
  openLink(ctx, sandbox)
  return connectionTo(ctx.providers.of(sandbox).open(handle), sandbox.spec.resources)
}
