/** Lists our containers, images and volumes at the daemon, found by label. */
import type { CallOptions } from '../../core/call.ts'
import { isSandboxId, type OwnerLabel } from '../../core/id.ts'
import { type Daemon, parseAnswer } from './daemon/daemon.ts'
import { CONTAINERS, type ContainerRow, IMAGES, VOLUMES } from './daemon/responses.ts'
import { OWNER_LABEL, SANDBOX_LABEL } from './names.ts'

export interface ListedImage {
  readonly id: string
  readonly tags: readonly string[]
  readonly labels: Readonly<Record<string, string>>
}

/** Sandboxes of one owner, or of all owners. */
export async function listContainers(
  daemon: Daemon,
  owner: OwnerLabel | undefined,
  o: CallOptions,
): Promise<readonly ContainerRow[]> {
  const filters = filtersOf([owner === undefined ? OWNER_LABEL : `${OWNER_LABEL}=${owner}`, SANDBOX_LABEL])
  const query = { all: '1', filters }
  const rows = parseAnswer(
    CONTAINERS,
    await daemon.json({ method: 'GET', path: '/containers/json', query }, o),
  )
  // Any user of the daemon can write labels.
  return rows.filter(({ Labels }) => isSandboxId(Labels[SANDBOX_LABEL] ?? ''))
}

/** Tagged images with this label. */
export async function listImages(
  daemon: Daemon,
  owner: OwnerLabel | undefined,
  label: string,
  o: CallOptions,
): Promise<readonly ListedImage[]> {
  const filters = filtersOf([owner === undefined ? OWNER_LABEL : `${OWNER_LABEL}=${owner}`, label])
  const answer = await daemon.json({ method: 'GET', path: '/images/json', query: { filters } }, o)
  return parseAnswer(IMAGES, answer)
    .filter(({ Labels }) => Labels[label] !== '')
    .map(({ Id, RepoTags, Labels }) => ({
      id: Id,
      tags: RepoTags.filter((tag) => tag !== '<none>:<none>'),
      labels: Labels,
    }))
}

export async function listVolumes(
  daemon: Daemon,
  owner: OwnerLabel,
  o: CallOptions,
): Promise<readonly string[]> {
  const query = { filters: filtersOf([`${OWNER_LABEL}=${owner}`]) }
  const { Volumes } = parseAnswer(VOLUMES, await daemon.json({ method: 'GET', path: '/volumes', query }, o))
  return Volumes.map(({ Name }) => Name)
}

function filtersOf(labels: readonly string[]): string {
  return JSON.stringify({ label: labels })
}
