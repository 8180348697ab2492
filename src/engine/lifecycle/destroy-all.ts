/** Destroys everything, each provider on its own: one that does not answer does not keep the others. */
import { AgentPodError, asAgentPodError } from '../../core/error.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { Volume } from '../../core/volume/volume.ts'
import type { Context } from '../context.ts'
import { forgetEnded } from '../groups/group.ts'
import { removeSnapshot } from '../snapshots/snapshot.ts'
import { removeAllVolumes } from '../volumes/volume.ts'
import { destroy } from './destroy.ts'

const CLEAR = { timeoutMs: 120_000 }

/** What could not be removed from one provider, and why. */
interface Left {
  readonly provider: string
  readonly sandboxes: readonly Sandbox[]
  readonly snapshots: readonly Snapshot[]
  readonly volumes: readonly Volume[]
  readonly why: AgentPodError
}

/**
 * Destroys every sandbox, snapshot and volume, and everything that providers keep for later. The error names
 * what is left and where.
 */
export async function destroyAll(ctx: Context): Promise<void> {
  for (const group of ctx.groupRegistry.all()) ctx.groupRegistry.setState(group, 'destroying')
  const records = [...ctx.registry.existing(), ...ctx.snapshotRegistry.all(), ...ctx.volumeRegistry.all()]
  const names = new Set([...records.map(({ provider }) => provider), ...ctx.providers.everUsed])
  const ends = await Promise.all(
    [...names].map(async (name) => ({ name, left: await destroyOnProvider(ctx, name) })),
  )
  const left = ends.flatMap((end) => end.left ?? [])
  // Once all of them are empty, and one after the other: providers may share what they keep.
  for (const end of ends) if (!end.left) left.push(...(await clearProvider(ctx, end.name)))
  for (const group of ctx.groupRegistry.all()) forgetEnded(ctx, group)
  if (left.length > 0) throw incomplete(left)
}

async function destroyOnProvider(ctx: Context, provider: string): Promise<Left | undefined> {
  const isOurs = (record: { readonly provider: string }): boolean => record.provider === provider
  try {
    const ends = ctx.registry
      .existing()
      .filter(isOurs)
      .map(({ id }) => destroy(ctx, id))
    const failed = (await Promise.allSettled(ends)).find(({ status }) => status === 'rejected')
    if (failed?.status === 'rejected') throw failed.reason
    // Newest first, because a snapshot may depend on older ones.
    for (const snapshot of ctx.snapshotRegistry.all().filter(isOurs).reverse())
      await removeSnapshot(ctx, snapshot)
    await removeAllVolumes(ctx, ctx.providers.of({ provider }))
    return undefined
  } catch (error) {
    return whatIsLeft(ctx, provider, error)
  }
}

async function clearProvider(ctx: Context, provider: string): Promise<Left[]> {
  try {
    await ctx.providers.of({ provider }).clear(CLEAR)
    return []
  } catch (error) {
    return [whatIsLeft(ctx, provider, error)]
  }
}

function whatIsLeft(ctx: Context, provider: string, error: unknown): Left {
  const isOurs = (record: { readonly provider: string }): boolean => record.provider === provider
  const sandboxes = ctx.registry.existing().filter(isOurs)
  const snapshots = ctx.snapshotRegistry.all().filter(isOurs)
  const volumes = ctx.volumeRegistry.all().filter(isOurs)
  return { provider, sandboxes, snapshots, volumes, why: asAgentPodError(error) }
}

function incomplete(left: readonly Left[]): AgentPodError {
  const [first] = left
  return new AgentPodError({
    code: first?.why.code ?? 'unavailable',
    reason: 'clear.incomplete',
    message: `${left.map(described).join('; ')}. Everything else was removed`,
    hint: left.map(nextStep).join('; '),
    details: {
      left: left.map(({ provider, sandboxes, snapshots, volumes, why }) => ({
        provider,
        sandboxes: sandboxes.map(({ id }) => id),
        snapshots: snapshots.map(({ id }) => id),
        volumes: volumes.map(({ id }) => id),
        reason: why.reason,
      })),
    },
    cause: first?.why,
  })
}

function nextStep({ provider, why }: Left): string {
  if (why.reason === 'provider.absent') return `start the server with the provider ${provider} and try again`
  return `try again when ${provider} is ready; \`agentpod provider check ${provider}\` shows what is wrong`
}

const MOST_NAMED = 10

function described({ provider, sandboxes, snapshots, volumes, why }: Left): string {
  const counts = [
    counted('sandbox', 'sandboxes', sandboxes),
    counted('snapshot', 'snapshots', snapshots),
    counted('volume', 'volumes', volumes),
  ]
  const what = counts.filter((one) => one !== undefined).join(' and ') || 'files kept for later sandboxes'
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
