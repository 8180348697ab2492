/** Copies of a sandbox or of a snapshot, several at once. */
import { AgentPodError, asAgentPodError, invalid } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import { failpoint } from '../../util/failpoint.ts'
import type { Context } from '../context.ts'
import { type CreateRequest, create } from '../lifecycle/create.ts'
import { discardSnapshot, takeSnapshot } from './snapshot.ts'

export const MOST_FORKS = 100

export interface ForkRequest extends Omit<CreateRequest, 'origin' | 'requestKey'> {
  readonly owner: string
  readonly count?: number | undefined
  /** Each fork continues the processes of the sandbox, with their memory. */
  readonly memory?: boolean | undefined
}

/** Each fork succeeds or fails on its own. */
export type Forked = { readonly sandbox: Sandbox } | { readonly error: AgentPodError }

/** All forks start with the files of the same moment. */
export async function fork(ctx: Context, id: SandboxId, request: ForkRequest): Promise<Forked[]> {
  const count = countOf(request)
  const snapshot = await takeSnapshot(ctx, id, {
    owner: request.owner,
    isTemporary: true,
    hasMemory: request.memory,
  })
  try {
    failpoint('fork.taken')
    const forked = await createCopies(ctx, snapshot, request, count)
    failpoint('fork.made')
    const sandboxes = forked.flatMap((one) => ('sandbox' in one ? [one.sandbox.id] : []))
    ctx.registry.appendEvent(id, 'sandbox.forked', { sandboxes })
    return forked
  } finally {
    await discardSnapshot(ctx, snapshot)
  }
}

function countOf({ count = 1 }: ForkRequest): number {
  if (Number.isInteger(count) && count >= 1 && count <= MOST_FORKS) return count
  throw invalid('fork.count', `count must be a whole number from 1 to ${MOST_FORKS}`)
}

async function createCopies(
  ctx: Context,
  snapshot: Snapshot,
  request: ForkRequest,
  count: number,
): Promise<Forked[]> {
  const { count: _, memory: __, name, ...asked } = request
  const nameOf = (n: number): string | undefined =>
    name === undefined || count === 1 ? name : `${name}-${n + 1}`
  return Promise.all(
    Array.from({ length: count }, async (___, n): Promise<Forked> => {
      try {
        return { sandbox: await restore(ctx, snapshot, { ...asked, name: nameOf(n) }) }
      } catch (error) {
        return { error: asAgentPodError(error) }
      }
    }),
  )
}

export interface RestoreRequest extends CreateRequest {
  /** Whether to continue the processes of the snapshot; by default if it has their memory. */
  readonly memory?: boolean | undefined
}

/** Creates a sandbox with the files of a snapshot, and its processes if it has their memory. */
export function restore(
  ctx: Context,
  snapshot: Snapshot,
  { memory, ...request }: RestoreRequest,
): Promise<Sandbox> {
  if (snapshot.state !== 'ready') {
    throw new AgentPodError({
      code: 'data_loss',
      reason: 'snapshot.lost',
      message: `the files of snapshot ${snapshot.name ?? snapshot.id} are gone`,
      hint: `\`agentpod snapshot rm ${snapshot.name ?? snapshot.id}\` removes the record`,
    })
  }
  if (memory && !snapshot.memory) {
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'snapshot.memory',
      message: `snapshot ${snapshot.name ?? snapshot.id} has files only`,
      hint: 'restore it without memory, or take another one with `--memory`',
    })
  }
  const hasMemory = memory ?? snapshot.memory !== undefined
  return ctx.snapshotRegistry.using(snapshot, () =>
    create(ctx, { ...request, origin: { snapshot, hasMemory } }),
  )
}
