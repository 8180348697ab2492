/** Destroys everything. Each provider is cleared for itself: one that does not answer keeps nothing of the others. */
import { AgentPodError, asAgentPodError } from '../core/error.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { Snapshot } from '../core/snapshot.ts'
import type { Context } from './context.ts'
import { destroy } from './destroy.ts'
import { removeSnapshot } from './snapshot.ts'

const CLEAR = { timeoutMs: 120_000 }

/** What could not be removed on one provider, and why. */
interface Left {
  readonly provider: string
  readonly sandboxes: readonly Sandbox[]
  readonly snapshots: readonly Snapshot[]
  readonly why: AgentPodError
}

/** Every sandbox, every snapshot and everything that providers keep for later ones. The error says what is left, and where. */
export async function clearAll(ctx: Context): Promise<void> {
  const records = [...ctx.ledger.living(), ...ctx.album.all()]
  const names = new Set([...records.map(({ provider }) => provider), ...ctx.providers.everUsed])
  const cleared = await Promise.all([...names].map((name) => clearOne(ctx, name)))
  const left = cleared.filter((one) => one !== undefined)
  if (left.length > 0) throw incomplete(left)
}

async function clearOne(ctx: Context, provider: string): Promise<Left | undefined> {
  const isOurs = (record: { readonly provider: string }): boolean => record.provider === provider
  try {
    const ends = ctx.ledger
      .living()
      .filter(isOurs)
      .map(({ id }) => destroy(ctx, id))
    const failed = (await Promise.allSettled(ends)).find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw failed.reason
    // Newest first: what others stand on is older than they are.
    for (const snapshot of ctx.album.all().filter(isOurs).reverse()) await removeSnapshot(ctx, snapshot)
    await ctx.providers.of({ provider }).clear(CLEAR)
    return undefined
  } catch (error) {
    const sandboxes = ctx.ledger.living().filter(isOurs)
    const snapshots = ctx.album.all().filter(isOurs)
    return { provider, sandboxes, snapshots, why: asAgentPodError(error) }
  }
}

function incomplete(left: readonly Left[]): AgentPodError {
  const [first] = left
  return new AgentPodError({
    code: first?.why.code ?? 'unavailable',
    reason: 'clear.incomplete',
    message: `${left.map(told).join('; ')}. Everything else is gone`,
    hint: left.map(nextStep).join('; '),
    details: {
      left: left.map(({ provider, sandboxes, snapshots, why }) => ({
        provider,
        sandboxes: sandboxes.map(({ id }) => id),
        snapshots: snapshots.map(({ id }) => id),
        reason: why.reason,
      })),
    },
    cause: first?.why,
  })
}

function nextStep({ provider, why }: Left): string {
  if (why.reason === 'provider.absent') return `start the server with ${provider}, and try again`
  return `try again when ${provider} is ready: \`agentpod provider check ${provider}\` tells more`
}

const MOST_NAMED = 10

function told({ provider, sandboxes, snapshots, why }: Left): string {
  const counts = [counted('sandbox', 'sandboxes', sandboxes), counted('snapshot', 'snapshots', snapshots)]
  const what = counts.filter((one) => one !== undefined).join(' and ') || 'what it keeps for later sandboxes'
  return `${what} could not be removed from ${provider}: ${why.message}`
}

function counted(
  one: string,
  several: string,
  records: readonly { readonly id: string; readonly name?: string | undefined }[],
): string | undefined {
  if (records.length === 0) return undefined
  const names = records.slice(0, MOST_NAMED).map(({ id, name }) => name ?? id)
  const more = records.length > MOST_NAMED ? ', …' : ''
  return `${records.length} ${records.length === 1 ? one : several} (${names.join(', ')}${more})`
}
