/**
 * Level-triggered repair: compares what we remember with what there is, and finishes or undoes. Runs at start, every few
 * seconds, and when a provider says that a sandbox ended.
 */
import type { SandboxId, SnapshotId } from '../core/id.ts'
import type { Exit, Observed, Provider } from '../core/provider.ts'
import type { Ending, Sandbox } from '../core/sandbox.ts'
import { ignore } from '../telemetry/log.ts'
import { CALL, CREATE } from './call.ts'
import type { Context, StillWanted } from './context.ts'
import { cleanUp, destroy, end } from './destroy.ts'
import { notRunning } from './need.ts'
import { openLive, pause, thaw } from './pause.ts'
import { sweepSnapshots } from './snapshot.ts'
import { halt, stop } from './stop.ts'

const EXPIRED: Ending = { code: 'deadline_exceeded', reason: 'sandbox.expired', message: 'its time was up' }

/**
 * At start nothing is in flight in this process, so every unfinished record is from a life before. Providers that records name are
 * swept before anybody is let in, each for itself.
 */
export async function reconcile(ctx: Context): Promise<void> {
  for (const sandbox of ctx.ledger.living()) {
    if (sandbox.state !== 'creating') continue
    ctx.ledger.move(sandbox.id, 'fail', {
      ending: {
        code: 'unavailable',
        reason: 'server.restarted',
        message: 'the server stopped while it was being created',
      },
    })
  }
  for (const record of [...ctx.ledger.living(), ...ctx.album.all()])
    if (ctx.providers.has(record)) ctx.providers.of(record)
}

/** How many rounds lie between two sweeps of a provider that has none of our records and does not answer. */
const ROUNDS_BETWEEN = 10

/**
 * The sweeps of one provider, one after another. While it does not answer, nothing of it is taken for gone, and the sweeps of other
 * providers go on.
 */
export class Sweeper {
  readonly #ctx: Context
  readonly #provider: Provider
  /** Snapshots of an earlier life, until the first sweep that succeeds has looked at them. */
  #earlier: ReadonlySet<SnapshotId>
  #skipped = 0

  constructor(ctx: Context, provider: Provider, earlier: ReadonlySet<SnapshotId>) {
    this.#ctx = ctx
    this.#provider = provider
    this.#earlier = earlier
  }

  /** Whether something of the provider has to be looked after now. */
  isDue(): boolean {
    const { ledger, album, providers } = this.#ctx
    const isOurs = ({ provider }: { readonly provider: string }): boolean => provider === this.#provider.name
    if (this.#earlier.size > 0 || ledger.living().some(isOurs)) return true
    if (album.all().some((one) => isOurs(one) && one.state === 'deleting')) return true
    // What no record tells of is looked for less often where the provider does not answer for long.
    const doubt = providers.doubtOf(this.#provider)
    if (doubt === 'none') return false
    return doubt === 'fresh' || this.#skipped++ % ROUNDS_BETWEEN === 0
  }

  /** One round. A failure for one sandbox leaves the others' repair alone. */
  async sweep(): Promise<void> {
    const ctx = this.#ctx
    const provider = this.#provider
    const startedAt = ctx.clock.now()
    const listed = await provider.list(ctx.owner, CALL)
    const found = new Map(listed.map(({ handle, observed }) => [handle.sandboxId, observed]))
    const living = ctx.ledger.living()
    const known = new Set(living.map(({ id }) => id))
    // INVARIANT: the record is written before a sandbox is made, so one without a record is nobody's. Two providers may reach one
    // machine, so a sandbox of the other is no orphan.
    const orphans = listed.filter(({ handle }) => !known.has(handle.sandboxId))
    const snapshots = sweepSnapshots(ctx, provider, this.#earlier).then(() => {
      this.#earlier = new Set()
    })
    const repairs = [
      ...living
        .filter((sandbox) => sandbox.provider === provider.name)
        .map((sandbox) => repair(ctx, sandbox, found.get(sandbox.id) ?? { state: 'absent' })),
      ...orphans.map(({ handle }) => provider.destroy(handle.sandboxId, CALL)),
      snapshots,
    ]
    const failed = (await Promise.allSettled(repairs)).filter(({ status }) => status === 'rejected')
    for (const result of failed) {
      if (result.status === 'rejected')
        ignore(ctx.log, result.reason, 'a repair failed; the next sweep tries again')
    }
    if (failed.length === 0) ctx.providers.settle(provider, startedAt)
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
      if (observed.state === 'running') await tend(ctx, sandbox)
      else await ctx.lock.run(id, () => changed(ctx, id))
      return
    case 'paused':
      // Memory is lost with its processes, as in a reboot; the files are not.
      if (observed.state !== 'paused') await ctx.lock.run(id, () => changed(ctx, id))
      return
    case 'stopped':
      if (observed.state !== 'stopped') await ctx.lock.run(id, () => changed(ctx, id))
      return
    case 'creating':
      return
    default:
      // A verb under way holds the lock; one that is over and left this state behind could not finish.
      await ctx.lock.run(id, () => settle(ctx, id))
  }
}

/** A sandbox that runs as it should: the way in is open, and its time is watched. */
async function tend(ctx: Context, sandbox: Sandbox): Promise<void> {
  if (!ctx.live.has(sandbox.id)) ctx.live.set(sandbox.id, openLive(ctx, sandbox))
  if (isExpired(ctx, sandbox.id)) await onTime(ctx, sandbox.id)
  else if (await isIdle(ctx, sandbox)) await over(ctx, sandbox, () => isIdle(ctx, sandbox))
}

function isExpired(ctx: Context, id: SandboxId): boolean {
  const sandbox = ctx.ledger.get(id)
  return sandbox?.state === 'running' && sandbox.deadlineAt <= ctx.clock.now()
}

/** Does what was asked for at the end of a sandbox's time; nothing where that is not come. */
export async function onTime(ctx: Context, id: SandboxId): Promise<void> {
  const sandbox = ctx.ledger.get(id)
  if (sandbox && isExpired(ctx, id)) await over(ctx, sandbox, () => isExpired(ctx, id))
}

/** Brings the end of a sandbox's time to now, and does what was asked for at that end. */
export async function expire(ctx: Context, id: SandboxId): Promise<void> {
  await ctx.lock.run(id, async () => {
    const sandbox = ctx.ledger.get(id)
    if (sandbox?.state !== 'running') throw notRunning(id, sandbox)
    ctx.ledger.amend(id, { deadlineAt: Math.min(sandbox.deadlineAt, ctx.clock.now()) })
  })
  await onTime(ctx, id)
}

/** The guest ends an idle sandbox by itself, but it cannot freeze itself. */
async function isIdle(ctx: Context, { id, spec: { lifetime } }: Sandbox): Promise<boolean> {
  if (lifetime.whenOver !== 'pause' || lifetime.idleMs === 0) return false
  const live = ctx.live.get(id) ?? ctx.frozen.get(id)
  const stats = await live?.guest.stats(CALL)
  return stats !== undefined && stats.idleForMs >= lifetime.idleMs
}

/** Its time is up, and still is when its turn comes: an extend or a call may have come first. */
async function over(ctx: Context, sandbox: Sandbox, isStillOver: StillWanted): Promise<void> {
  const { id, spec } = sandbox
  const { whenOver } = spec.lifetime
  if (whenOver === 'destroy') await destroy(ctx, id, EXPIRED, isStillOver)
  else if (whenOver === 'stop' || !ctx.providers.of(sandbox).pausing)
    await stop(ctx, id, EXPIRED, isStillOver)
  else await pause(ctx, id, isStillOver)
}

/** Finishes or undoes a verb that was cut off. Called under the sandbox's lock. */
async function settle(ctx: Context, id: SandboxId): Promise<void> {
  const sandbox = ctx.ledger.get(id)
  if (!sandbox || sandbox.endedAt !== undefined) return
  const isHalted = sandbox.state === 'stopping' || sandbox.state === 'starting'
  if (!isHalted && sandbox.state !== 'pausing' && sandbox.state !== 'resuming') return
  const observed = await ctx.providers.of(sandbox).inspect(id, CALL)
  // What is gone can neither be stopped nor run on.
  if (observed.state === 'absent') await lose(ctx, sandbox, observed)
  else if (isHalted) await halt(ctx, id)
  else if (observed.state === 'paused') ctx.ledger.move(id, 'paused')
  else if (observed.state === 'running')
    await thaw(ctx, sandbox, ctx.clock.now() + sandbox.spec.lifetime.ttlMs)
  else await lose(ctx, sandbox, observed)
}

export async function exited(ctx: Context, exit: Exit): Promise<void> {
  await ctx.lock.run(exit.sandboxId, () => changed(ctx, exit.sandboxId))
}

/** A sandbox that is not in the state we remember. The record follows what there is. Called under the sandbox's lock. */
async function changed(ctx: Context, id: SandboxId): Promise<void> {
  const sandbox = ctx.ledger.get(id)
  if (!sandbox || !['running', 'paused', 'stopped'].includes(sandbox.state)) return
  // A sandbox created after a listing was taken is absent from it and very much alive.
  const provider = ctx.providers.of(sandbox)
  const observed = await provider.inspect(id, CALL)
  if (observed.state === sandbox.state) return
  if (sandbox.state === 'stopped' && observed.state !== 'absent') {
    // It is to have no processes, whatever it looks like; its files are there.
    await provider.stopping?.stop(id, CREATE)
    return
  }
  switch (observed.state) {
    case 'running':
      // Nobody asked for that. It is brought back to what was asked for.
      await provider.pausing?.pause(id, CALL)
      return
    case 'paused':
      freezeRecord(ctx, sandbox)
      return
    default:
      await lose(ctx, sandbox, observed)
  }
}

/** The provider paused it when its time was up and nobody else was there to do it. */
function freezeRecord(ctx: Context, { id, state }: Sandbox): void {
  if (state !== 'running') return
  const live = ctx.live.get(id)
  ctx.live.delete(id)
  if (live) ctx.frozen.set(id, live)
  ctx.ledger.move(id, 'pause')
  ctx.ledger.move(id, 'paused')
}

/**
 * Its processes are no more. One whose time was up ends as was asked; one that is to outlive its time, or was paused, is stopped as long
 * as its files are there; else it has failed.
 */
async function lose(ctx: Context, sandbox: Sandbox, observed: Observed): Promise<void> {
  const { id, spec, deadlineAt, state } = sandbox
  const { whenOver } = spec.lifetime
  const isOverdue = observed.state === 'exited' && observed.expired
  const wasExpired = state === 'running' && (isOverdue || deadlineAt <= ctx.clock.now())
  const isKept = observed.state === 'exited' || observed.state === 'stopped'
  // Where nothing can be started again, files are of no use.
  const hasFiles = isKept && ctx.providers.of(sandbox).stopping !== undefined
  if (hasFiles && (whenOver !== 'destroy' || state !== 'running')) {
    ctx.ledger.move(id, 'stop', { ending: wasExpired || isOverdue ? EXPIRED : lost(observed) })
    await halt(ctx, id)
  } else if (wasExpired) {
    await end(ctx, sandbox, EXPIRED)
  } else {
    ctx.ledger.move(id, 'fail', { ending: lost(observed) })
    await cleanUp(ctx, id)
  }
}

function lost(observed: Observed): Ending {
  if (observed.state === 'exited' && observed.oomKilled) {
    return { code: 'resource_exhausted', reason: 'sandbox.oom', message: 'it ran out of memory' }
  }
  return { code: 'unavailable', reason: 'sandbox.lost', message: 'it ended by itself' }
}
