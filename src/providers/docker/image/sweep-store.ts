/**
 * Removes everything cached for one owner: layers, composed images, podd's volumes and the containers that
 * filled them.
 */
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../../core/error.ts'
import type { OwnerLabel } from '../../../core/id.ts'
import { type Daemon, parseAnswer } from '../daemon/daemon.ts'
import { CONTAINERS } from '../daemon/responses.ts'
import { listContainers, listImages, listVolumes } from '../listing.ts'
import { COMPOSED_LABEL, LAYER_LABEL, OWNER_LABEL, PODD_LABEL, SNAPSHOT_LABEL } from '../names.ts'
import type { ImageStore } from './image-store.ts'

/** `conflict` while a sandbox or a snapshot of the owner exists. */
export async function sweepStore(
  daemon: Daemon,
  images: ImageStore,
  owner: OwnerLabel,
  o: CallOptions,
): Promise<void> {
  const [containers, snapshots] = await Promise.all([
    listContainers(daemon, owner, o),
    listImages(daemon, owner, SNAPSHOT_LABEL, o),
  ])
  const named = snapshots.filter(({ tags }) => tags.length > 0)
  if (containers.length > 0 || named.length > 0) throw inUse(containers.length, named.length)
  const filters = JSON.stringify({ label: [`${OWNER_LABEL}=${owner}`, PODD_LABEL] })
  const fillers = await daemon.json(
    { method: 'GET', path: '/containers/json', query: { all: '1', filters } },
    o,
  )
  for (const { Id } of parseAnswer(CONTAINERS, fillers)) await removeQuietly(daemon, `/containers/${Id}`, o)
  for (const kind of [COMPOSED_LABEL, LAYER_LABEL])
    for (const { tags } of await listImages(daemon, owner, kind, o))
      for (const tag of tags) await images.untag(tag, o)
  for (const name of await listVolumes(daemon, owner, o)) await removeQuietly(daemon, `/volumes/${name}`, o)
}

async function removeQuietly(daemon: Daemon, path: string, o: CallOptions): Promise<void> {
  try {
    await daemon.json({ method: 'DELETE', path, query: { force: '1' } }, o)
  } catch (error) {
    if (!isAgentPodError(error, 'not_found')) throw error
  }
}

function inUse(sandboxes: number, snapshots: number): AgentPodError {
  return new AgentPodError({
    code: 'conflict',
    reason: 'provider.used',
    message: `the Docker daemon still has ${sandboxes} sandboxes and ${snapshots} snapshots`,
    hint: 'destroy the sandboxes and delete the snapshots first',
  })
}
