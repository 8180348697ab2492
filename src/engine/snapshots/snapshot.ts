/** Snapshots: the files of a sandbox at one moment. */
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { newSnapshotId, parseName, type SandboxId, type SnapshotId } from '../../core/id.ts'
import type { Provider, Snapshots, StoredSnapshot } from '../../core/provider.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { LayerInfo, Snapshot, SnapshotMemory } from '../../core/snapshot.ts'
import { ignore } from '../../telemetry/log.ts'
import { failpoint } from '../../util/failpoint.ts'
import { CALL, COPY } from '../call.ts'
import type { Context } from '../context.ts'
import { requireSandbox, unusableSandbox } from '../lifecycle/require-sandbox.ts'
import { linkForSnapshot } from '../network/egress-link.ts'
import { releaseLayers } from './imported-layers.ts'

export interface SnapshotRequest {
  readonly owner: string
  readonly name?: string | undefined
  readonly labels?: Readonly<Record<string, string>> | undefined
  /** Taken only to fork from, then removed. */
  readonly isTemporary?: boolean | undefined
  readonly layer?: LayerInfo | undefined
  /** Keep the memory of its processes too. */
  readonly hasMemory?: boolean | undefined
}

const SOURCES: readonly Sandbox['state'][] = ['running', 'paused', 'stopped']

/**
 * The sandbox stands still for a moment and then continues. On failure nothing is left, and the sandbox is
 * unchanged.
 */
export async function takeSnapshot(ctx: Context, id: SandboxId, request: SnapshotRequest): Promise<Snapshot> {
  const snapshots = ctx.providers.group(requireSandbox(ctx, id), 'snapshots')
  const name = request.name === undefined ? undefined : parseName(request.name)
  return ctx.lock.run(id, async () => {
    const sandbox = requireSandbox(ctx, id)
    if (!SOURCES.includes(sandbox.state)) throw unusableSandbox(id, sandbox)
    if (request.hasMemory) await requireMemory(ctx, sandbox)
    const intended: Snapshot = {
      id: newSnapshotId(ctx.random),
      owner: request.owner,
      name,
      labels: request.labels ?? {},
      provider: sandbox.provider,
      state: 'creating',
      isTemporary: request.isTemporary ?? false,
      sandboxId: id,
      parentId: sandbox.tip,
      spec: sandbox.spec,
      root: undefined,
      sizeBytes: 0,
      createdAt: ctx.clock.now(),
      ...(request.layer && { layer: request.layer }),
    }
    ctx.snapshotRegistry.add(intended)
    let snapshot: Snapshot
    try {
      failpoint('snapshot.intended')
      const hasMemory = request.hasMemory ?? false
      const kept = await snapshots.create(intended.id, id, ctx.owner, { ...COPY, hasMemory })
      failpoint('snapshot.taken')
      const memory = hasMemory ? memoryOf(ctx, intended, sandbox, kept) : undefined
      snapshot = ctx.snapshotRegistry.complete(intended, kept, memory)
    } catch (error) {
      await discardSnapshot(ctx, intended)
      throw error
    }
    failpoint('snapshot.recorded')
    if (!snapshot.isTemporary && !snapshot.layer) recordSnapshot(ctx, snapshot)
    return snapshot
  })
}

/** Refuses a snapshot with memory before anything changes, where it cannot be taken. */
async function requireMemory(ctx: Context, { id, provider, state }: Sandbox): Promise<void> {
  if (state !== 'running')
    throw new AgentPodError({
      code: 'conflict',
      reason: 'sandbox.state',
      message: `sandbox ${id} is ${state}: only the memory of a running sandbox can be saved`,
      hint: `\`agentpod resume ${id}\` or \`agentpod start ${id}\` first, or leave out \`--memory\``,
    })
  const { snapshot } = await ctx.providers.of({ provider }).capabilities(CALL)
  if (snapshot === 'memory') return
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'snapshot.memory',
    message: `the provider ${provider} cannot save the memory of a sandbox`,
    hint: 'create the sandbox with `--isolation gvisor` or `--isolation vm`, or leave out `--memory`',
  })
}

function memoryOf(
  ctx: Context,
  { id }: Snapshot,
  sandbox: Sandbox,
  { memoryBytes = 0 }: StoredSnapshot,
): SnapshotMemory {
  const link = linkForSnapshot(ctx, sandbox, id)
  return { sizeBytes: memoryBytes, ...(link && { link }) }
}

/** The sandbox of a kept snapshot continues from it. */
export function recordSnapshot(ctx: Context, { id, name, sandboxId }: Snapshot): void {
  if (!sandboxId) return
  ctx.registry.update(sandboxId, { tip: id })
  ctx.registry.appendEvent(sandboxId, 'snapshot.created', { snapshot: id, name })
}

/** `conflict` while a sandbox is being made from it. Sandboxes that were made from it keep their files. */
export async function removeSnapshot(ctx: Context, snapshot: Snapshot): Promise<void> {
  if (ctx.snapshotRegistry.isUsed(snapshot.id)) {
    throw new AgentPodError({
      code: 'conflict',
      reason: 'snapshot.used',
      message: `snapshot ${snapshot.name ?? snapshot.id} is in use: a sandbox is being made from it, or a run waits for one`,
      hint: 'try again in a moment; `agentpod runs` lists waiting runs',
    })
  }
  const snapshots = ctx.providers.group(snapshot, 'snapshots')
  ctx.snapshotRegistry.mark(snapshot, 'deleting')
  failpoint('snapshot.unlisted')
  await snapshots.remove(snapshot.id, CALL)
  ctx.snapshotRegistry.forget(snapshot.id)
  await releaseLayers(ctx, snapshot)
}

/** Removes a snapshot that is unfinished or no longer needed. On failure the sweep tries again. */
export async function discardSnapshot(ctx: Context, snapshot: Snapshot): Promise<void> {
  try {
    if (snapshot.state !== 'deleting') ctx.snapshotRegistry.mark(snapshot, 'deleting')
    await ctx.providers.group(snapshot, 'snapshots').remove(snapshot.id, CALL)
    ctx.snapshotRegistry.forget(snapshot.id)
    await releaseLayers(ctx, snapshot)
  } catch (error) {
    ignore(ctx.log, error, `the sweep will remove what is left of snapshot ${snapshot.id}`)
  }
}

/**
 * Removes snapshots without a record and finishes interrupted removals, on one provider. `earlier` has the
 * snapshots of an earlier server, at the first successful sweep of the provider: unfinished and temporary
 * ones among them are no longer needed.
 * INVARIANT: the record is written before a snapshot is taken, so a snapshot without a record is an orphan.
 */
export async function sweepSnapshots(
  ctx: Context,
  provider: Provider,
  earlier: ReadonlySet<SnapshotId>,
): Promise<void> {
  const snapshots = provider.snapshots
  if (!snapshots) return
  const found = new Set(await snapshots.list(ctx.owner, CALL))
  const all = ctx.snapshotRegistry.all()
  const known = all.filter((one) => one.provider === provider.name)
  const knownIds = new Set(all.map(({ id }) => id))
  for (const id of found) if (!knownIds.has(id)) await removeOrphan(ctx, snapshots, id)
  // Newest first, because a snapshot may depend on older ones.
  for (const snapshot of known.reverse()) {
    const { id, state, isTemporary, layer, root } = snapshot
    const isEarlier = earlier.has(id)
    const isUnfinished = isEarlier && (state === 'creating' || isTemporary)
    const isLost = isEarlier && ![id, ...(root?.over ?? [])].every((one) => found.has(one))
    // A layer that is lost, or depends on a lost one, can be built again. The record of a lost snapshot is
    // kept for its owner.
    if (isUnfinished || (isLost && layer) || (state === 'deleting' && !ctx.snapshotRegistry.isUsed(id)))
      await discardSnapshot(ctx, snapshot)
    else if (isLost && state === 'ready') ctx.snapshotRegistry.mark(snapshot, 'lost')
  }
}

/** A snapshot that another one depends on is removed after that one. */
async function removeOrphan(ctx: Context, snapshots: Snapshots, id: SnapshotId): Promise<void> {
  try {
    await snapshots.remove(id, CALL)
  } catch (error) {
    if (!isAgentPodError(error, 'conflict')) throw error
    ignore(ctx.log, error, `the orphaned snapshot ${id} is still in use`)
  }
}
