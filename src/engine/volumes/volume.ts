/** Making, mounting and removing volumes. */
import { AgentPodError, asAgentPodError, invalid } from '../../core/error.ts'
import { newVolumeId, parseName, type VolumeId } from '../../core/id.ts'
import { LOCAL } from '../../core/principal.ts'
import type { Mount, Provider } from '../../core/provider.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Spec } from '../../core/spec.ts'
import { checkMountPaths, parseMountPath } from '../../core/volume/mount-path.ts'
import {
  LARGEST_VOLUME_MIB,
  MOST_VOLUMES,
  SMALLEST_VOLUME_MIB,
  type Volume,
  type VolumeMount,
  type VolumeRequest,
} from '../../core/volume/volume.ts'
import { ignore } from '../../telemetry/log.ts'
import { failpoint } from '../../util/failpoint.ts'
import { CALL } from '../call.ts'
import type { Context } from '../context.ts'

const MIB = 1024 * 1024

export interface NewVolume {
  readonly name: string
  readonly sizeMib?: number | undefined
  /** The provider that keeps it; the default one if left out. */
  readonly provider?: string | undefined
}

/** How many volumes one key may have. The local user has no limit. */
export const MOST_OWNED = 100

/** On failure nothing is left at the provider, and there is no record. */
export async function makeVolume(ctx: Context, owner: string, request: NewVolume): Promise<Volume> {
  const name = parseName(request.name)
  checkSize(request.sizeMib)
  const chosen =
    request.provider === undefined ? ctx.providers.default : ctx.providers.named(request.provider)
  await requireVolumes(ctx, chosen)
  // Only now: what was never used is not swept, and not asked by `reset`.
  const provider = ctx.providers.use(chosen)
  checkRoom(ctx, owner)
  const volume: Volume = {
    id: newVolumeId(ctx.random),
    owner,
    name,
    provider: provider.name,
    state: 'creating',
    sizeMib: request.sizeMib,
    limit: undefined,
    createdAt: ctx.clock.now(),
  }
  // INVARIANT: nothing is awaited since the check, so simultaneous creates count each other. The store
  // refuses a name that is taken.
  ctx.volumeRegistry.add(volume)
  return ctx.lock.run(volume.id, async () => {
    try {
      failpoint('volume.intended')
      const group = ctx.providers.groupOf(provider, 'volumes')
      const stored = await group.create(volume.id, ctx.owner, (volume.sizeMib ?? 0) * MIB, CALL)
      failpoint('volume.made')
      return ctx.volumeRegistry.complete(volume, stored)
    } catch (error) {
      await discardVolume(ctx, volume)
      throw asAgentPodError(error)
    }
  })
}

function checkSize(sizeMib: number | undefined): void {
  if (sizeMib === undefined) return
  if (Number.isInteger(sizeMib) && sizeMib >= SMALLEST_VOLUME_MIB && sizeMib <= LARGEST_VOLUME_MIB) return
  throw invalid(
    'volume.size',
    `the size of a volume is a whole number of MiB from ${SMALLEST_VOLUME_MIB} to ${LARGEST_VOLUME_MIB}`,
  )
}

function checkRoom(ctx: Context, owner: string): void {
  if (owner === LOCAL.owner) return
  const owned = ctx.volumeRegistry.all().filter((one) => one.owner === owner).length
  if (owned < MOST_OWNED) return
  throw new AgentPodError({
    code: 'resource_exhausted',
    reason: 'quota.volumes',
    message: `this key has ${owned} volumes, which is the most`,
    hint: '`agentpod volume rm` removes one',
  })
}

/** `unsupported` before anything is made, also where only this machine's helper is too old. */
async function requireVolumes(ctx: Context, provider: Provider): Promise<void> {
  ctx.providers.groupOf(provider, 'volumes')
  const { volumes } = await provider.capabilities(CALL)
  if (!volumes) throw cannotMount(provider, 'volumes')
}

function cannotMount({ name }: Provider, what: string): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'volume.unsupported',
    message: `the provider ${name} cannot mount ${what} at the moment`,
    hint: 'an earlier version may still run its sandboxes: stop it with `agentpod server stop`, then try again',
  })
}

/**
 * The sandboxes that mount a volume, in every state but destroyed: a stopped or paused one expects to find
 * it.
 */
export function usersOf(ctx: Context, id: VolumeId): Sandbox[] {
  return ctx.registry.existing().filter(({ spec }) => spec.volumes?.some(({ volume }) => volume === id))
}

/** `conflict` while a sandbox mounts it. */
export async function removeVolume(ctx: Context, volume: Volume): Promise<void> {
  await ctx.lock.run(volume.id, async () => {
    if (ctx.volumeRegistry.all().every(({ id }) => id !== volume.id)) return
    const [user] = usersOf(ctx, volume.id)
    if (user) {
      const name = user.name ?? user.id
      throw new AgentPodError({
        code: 'conflict',
        reason: 'volume.used',
        message: `the volume ${volume.name} is mounted in the sandbox ${name}, which is ${user.state}`,
        hint: `\`agentpod destroy ${name}\` ends the sandbox; then remove the volume again`,
        details: { sandboxes: usersOf(ctx, volume.id).map(({ id }) => id) },
      })
    }
    // INVARIANT: nothing is awaited between the check and this, so no sandbox begins to use it in between.
    const removing = ctx.volumeRegistry.markRemoving(volume)
    failpoint('volume.unlisted')
    await ctx.providers.group(removing, 'volumes').remove(removing.id, CALL)
    failpoint('volume.removed')
    ctx.volumeRegistry.forget(removing.id)
  })
}

/** Removes a volume that is unfinished. On failure the sweep tries again. */
async function discardVolume(ctx: Context, volume: Volume): Promise<void> {
  try {
    const removing = ctx.volumeRegistry.markRemoving(volume)
    await ctx.providers.group(removing, 'volumes').remove(removing.id, CALL)
    ctx.volumeRegistry.forget(removing.id)
  } catch (error) {
    ignore(ctx.log, error, `the sweep will remove what is left of volume ${volume.id}`)
  }
}

/**
 * Removes unfinished volumes of an earlier server, and finishes interrupted removals.
 *
 * Unlike a sandbox or a snapshot, a volume without a record is kept: the database was lost or replaced then,
 * and a volume may have the only copy of a person's data. `agentpod reset` removes it.
 */
export async function sweepVolumes(
  ctx: Context,
  provider: Provider,
  earlier: ReadonlySet<VolumeId>,
): Promise<void> {
  for (const volume of ctx.volumeRegistry.all()) {
    if (volume.provider !== provider.name) continue
    const isUnfinished =
      volume.state === 'removing' || (volume.state === 'creating' && earlier.has(volume.id))
    if (!isUnfinished) continue
    await ctx.lock.run(volume.id, async () => {
      const now = ctx.volumeRegistry.all().find(({ id }) => id === volume.id)
      if (now && now.state !== 'ready') await discardVolume(ctx, now)
    })
  }
}

/** Removes every volume of a provider, those without a record too. */
export async function removeAllVolumes(ctx: Context, provider: Provider): Promise<void> {
  for (const volume of ctx.volumeRegistry.all().filter((one) => one.provider === provider.name))
    await removeVolume(ctx, volume)
  const { volumes } = provider
  if (!volumes) return
  for (const id of await volumes.list(ctx.owner, CALL)) await volumes.remove(id, CALL)
}

/** Checks what a request wants to mount. Nothing is awaited. */
export function resolveVolumes(
  ctx: Context,
  owner: string,
  requests: readonly VolumeRequest[] | undefined,
): VolumeMount[] {
  if (!requests || requests.length === 0) return []
  if (requests.length > MOST_VOLUMES)
    throw invalid('volume.count', `a sandbox mounts at most ${MOST_VOLUMES} volumes`)
  const mounts = requests.map(({ volume: ref, path, readOnly }) => {
    const volume = ctx.volumeRegistry.get(ref, { owner, isAdmin: false })
    return {
      volume: volume.id,
      name: volume.name,
      path: parseMountPath(path),
      isReadOnly: readOnly ?? false,
    }
  })
  checkMountPaths(mounts.map(({ path }) => path))
  return mounts
}

/** The provider that keeps the volumes of a sandbox. All are on one. */
export function providerOfVolumes(
  ctx: Context,
  mounts: readonly VolumeMount[],
): { readonly provider: string; readonly what: string } | undefined {
  const records = ctx.volumeRegistry.all()
  const volumes = mounts.flatMap((mount) => records.filter(({ id }) => id === mount.volume))
  const [first] = volumes
  if (!first) return undefined
  const other = volumes.find(({ provider }) => provider !== first.provider)
  if (other) {
    throw invalid(
      'volume.provider',
      `the volume ${first.name} is on the provider ${first.provider}, and ${other.name} on ${other.provider}`,
      'a sandbox can only mount volumes of its own provider',
    )
  }
  return { provider: first.provider, what: `the volume ${first.name}` }
}

/** The volumes and ephemeral directories of a spec, as the provider mounts them. */
export function mountsOf({ volumes = [], ephemeral = [], resources }: Spec): Mount[] {
  return [
    ...volumes.map(({ volume: id, path, isReadOnly }) => ({ kind: 'volume' as const, id, path, isReadOnly })),
    ...ephemeral.map(({ path, sizeMib = resources.tmpMib }) => ({
      kind: 'tmpfs' as const,
      path,
      sizeBytes: sizeMib * 2 ** 20,
      takesOwner: true,
    })),
  ]
}
