/** Files of a sandbox as they are at one moment. */
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import { newSnapshotId, parseName, type SandboxId, type SnapshotId } from '../core/id.ts'
import type { Provider, Snapshots } from '../core/provider.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { LayerInfo, Snapshot } from '../core/snapshot.ts'
import { ignore } from '../telemetry/log.ts'
import { failpoint } from '../util/failpoint.ts'
import { CALL, COPY } from './call.ts'
import type { Context } from './context.ts'
import { releaseLayers } from './imported-layers.ts'
import { needSandbox, notRunning } from './need.ts'

export interface SnapshotRequest {
  readonly owner: string
  readonly name?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** To fork from, and then to be removed. */
  readonly isPassing?: boolean | undefined
  readonly layer?: LayerInfo | undefined
}

const SOURCES: readonly Sandbox['state'][] = ['running', 'paused', 'stopped']

/** The sandbox stands still for a moment and then goes on. On failure nothing is left and the sandbox is as it was. */
export async function takeSnapshot(ctx: Context, id: SandboxId, request: SnapshotRequest): Promise<Snapshot> {
  const keeper = ctx.providers.group(needSandbox(ctx, id), 'snapshots')
  const name = request.name === undefined ? undefined : parseName(request.name)
  return ctx.lock.run(id, async () => {
    const sandbox = needSandbox(ctx, id)
    if (!SOURCES.includes(sandbox.state)) throw notRunning(id, sandbox)
    const intended: Snapshot = {
      id: newSnapshotId(ctx.random),
      owner: request.owner,
      name,
      labels: request.labels ?? {},
      provider: sandbox.provider,
      state: 'creating',
      isPassing: request.isPassing ?? false,
      sandboxId: id,
      parentId: sandbox.tip,
      spec: sandbox.spec,
      root: undefined,
      sizeBytes: 0,
      createdAt: ctx.clock.now(),
      ...(request.layer && { layer: request.layer }),
    }
    ctx.album.begin(intended)
    let snapshot: Snapshot
    try {
      failpoint('snapshot.intended')
      const kept = await keeper.create(intended.id, id, ctx.owner, COPY)
      failpoint('snapshot.taken')
      snapshot = ctx.album.complete(intended, kept)
    } catch (error) {
      await discard(ctx, intended)
      throw error
    }
    failpoint('snapshot.recorded')
    if (!snapshot.isPassing && !snapshot.layer) {
      ctx.ledger.amend(id, { tip: snapshot.id })
      ctx.ledger.note(id, 'snapshot.created', { snapshot: snapshot.id, name })
    }
    return snapshot
  })
}

/** `conflict` while a sandbox is being made from it. Those that were made keep their files. */
export async function removeSnapshot(ctx: Context, snapshot: Snapshot): Promise<void> {
  if (ctx.album.isUsed(snapshot.id)) {
    throw new AgentPodError({
      code: 'conflict',
      reason: 'snapshot.used',
      message: `a sandbox is being made from ${snapshot.name ?? snapshot.id}, or a run waits for one`,
      hint: 'try again in a moment; `agentpod runs` shows what waits',
    })
  }
  const keeper = ctx.providers.group(snapshot, 'snapshots')
  ctx.album.mark(snapshot, 'deleting')
  failpoint('snapshot.unlisted')
  await keeper.remove(snapshot.id, CALL)
  ctx.album.forget(snapshot.id)
  await releaseLayers(ctx, snapshot)
}

/** Removes one that was not finished, or has served. When that fails, the sweep tries again. */
export async function discard(ctx: Context, snapshot: Snapshot): Promise<void> {
  try {
    if (snapshot.state !== 'deleting') ctx.album.mark(snapshot, 'deleting')
    await ctx.providers.group(snapshot, 'snapshots').remove(snapshot.id, CALL)
    ctx.album.forget(snapshot.id)
    await releaseLayers(ctx, snapshot)
  } catch (error) {
    ignore(ctx.log, error, `remains of snapshot ${snapshot.id} are left for the sweep`)
  }
}

/**
 * Removes what nobody remembers and finishes what was to be removed, on one provider. `earlier` are the snapshots of an earlier life of
 * the server, at the first sweep of the provider that succeeds: of these, what is unfinished or passing is in nobody's hands.
 * INVARIANT: the record is written before a snapshot is taken, so one without a record is nobody's.
 */
export async function sweepSnapshots(
  ctx: Context,
  provider: Provider,
  earlier: ReadonlySet<SnapshotId>,
): Promise<void> {
  const keeper = provider.snapshots
  if (!keeper) return
  const found = new Set(await keeper.list(ctx.owner, CALL))
  const all = ctx.album.all()
  const known = all.filter((one) => one.provider === provider.name)
  const knownIds = new Set(all.map(({ id }) => id))
  for (const id of found) if (!knownIds.has(id)) await removeUnknown(ctx, keeper, id)
  // Newest first: what others stand on is older than they are.
  for (const snapshot of known.reverse()) {
    const { id, state, isPassing, layer, root } = snapshot
    const isEarlier = earlier.has(id)
    const isUnfinished = isEarlier && (state === 'creating' || isPassing)
    const isLost = isEarlier && ![id, ...(root?.over ?? [])].every((one) => found.has(one))
    // A layer that is lost, or stands on one that is, can be built again; the record of a snapshot tells its owner.
    if (isUnfinished || (isLost && layer) || (state === 'deleting' && !ctx.album.isUsed(id)))
      await discard(ctx, snapshot)
    else if (isLost && state === 'ready') ctx.album.mark(snapshot, 'lost')
  }
}

/** One that another stands on goes when that one is gone. */
async function removeUnknown(ctx: Context, keeper: Snapshots, id: SnapshotId): Promise<void> {
  try {
    await keeper.remove(id, CALL)
  } catch (error) {
    if (!isAgentPodError(error, 'conflict')) throw error
    ignore(ctx.log, error, `snapshot ${id} of nobody is still stood on`)
  }
}
