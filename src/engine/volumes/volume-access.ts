/**
 * Files of a volume for callers outside. A small sandbox without network mounts the volume, and podd in it
 * reads and writes: no path of a volume is ever resolved on the host. The sandbox is kept for a minute after
 * its last use.
 */
import type { VolumeId } from '../../core/id.ts'
import type { Principal } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Volume } from '../../core/volume/volume.ts'
import { ignore } from '../../telemetry/log.ts'
import type { Context, GuestConnection } from '../context.ts'
import { create } from '../lifecycle/create.ts'
import { destroy } from '../lifecycle/destroy.ts'
import { connectOrWake } from '../lifecycle/wake.ts'

/** Names the volume whose files a sandbox is for. */
const ACCESS_LABEL = 'agentpod/volume-access'
/** Where the volume is in such a sandbox. */
export const VOLUME_PATH = '/volume'

const TTL_MS = 24 * 3_600_000
const IDLE_MS = 60_000

/** Whether a sandbox exists only for access to the files of a volume. */
export function isVolumeAccess({ labels, spec }: Sandbox): boolean {
  const id = labels[ACCESS_LABEL]
  if (id === undefined) return false
  const [only, ...others] = spec.volumes ?? []
  return only?.volume === id && only.path === VOLUME_PATH && others.length === 0
}

/** A connection to the sandbox for the files of a volume, which is made if there is none. */
export async function volumeAccess(ctx: Context, volume: Volume, who: Principal): Promise<GuestConnection> {
  return ctx.lock.run(`access:${volume.id}`, async () => {
    const found = accessOf(ctx, volume.id).find(({ state }) => state === 'running')
    const connection = found && ctx.connections.get(found.id)
    if (connection) return connection
    const { id } = await create(ctx, {
      owner: volume.owner,
      // The caller may be an admin; the sandbox gets no more than the volume's owner has.
      who: { owner: volume.owner, isAdmin: false, network: who.network },
      labels: { [ACCESS_LABEL]: volume.id },
      // Without sudo, root inside cannot change the owner of a file.
      environment: { user: 'root', sudo: true },
      resources: { memoryMib: 256, cpus: 1, pids: 64, tmpMib: 16 },
      lifetime: { ttlMs: TTL_MS, idleMs: IDLE_MS, whenOver: 'destroy', autoResume: false },
      network: { mode: 'off' },
      volumes: [{ volume: volume.id, path: VOLUME_PATH }],
    })
    return connectOrWake(ctx, id, () => false)
  })
}

/** Ends the sandboxes for the files of a volume, so that it can be removed. */
export async function endVolumeAccess(ctx: Context, id: VolumeId): Promise<void> {
  await ctx.lock.run(`access:${id}`, async () => {
    for (const sandbox of accessOf(ctx, id))
      await destroy(ctx, sandbox.id).catch((error) =>
        ignore(ctx.log, error, `the sweep will destroy ${sandbox.id}`),
      )
  })
}

function accessOf(ctx: Context, id: VolumeId): Sandbox[] {
  return ctx.registry
    .existing()
    .filter((sandbox) => isVolumeAccess(sandbox) && sandbox.labels[ACCESS_LABEL] === id)
}
