/**
 * The names of our containers, volumes and images, and the labels by which they are found without any other
 * record.
 */
import type { OwnerLabel, SandboxId, SnapshotId } from '../../core/id.ts'

export const OWNER_LABEL = 'agentpod.owner'
export const SANDBOX_LABEL = 'agentpod.sandbox'
/**
 * The token that podd expects on a connection. Anyone who can read the labels of a container can also run
 * programs in it, so the label gives nothing away. Programs inside cannot read it.
 */
export const TOKEN_LABEL = 'agentpod.token'
export const DEADLINE_LABEL = 'agentpod.deadline'
export const WHEN_OVER_LABEL = 'agentpod.when-over'
/** The root of a container or a snapshot, as JSON. */
export const ROOT_LABEL = 'agentpod.root'
/** On a container: the snapshot it was created from. On an image: the snapshot that it is. */
export const SNAPSHOT_LABEL = 'agentpod.snapshot'
/** How many of the top layers belong to the snapshot or container itself and not to its root. */
export const OWN_LAYERS_LABEL = 'agentpod.own-layers'
export const LAYER_LABEL = 'agentpod.layer'
export const COMPOSED_LABEL = 'agentpod.composed'
export const PODD_LABEL = 'agentpod.podd'

/** Cleared in the image of a snapshot, which would otherwise inherit all labels of its container. */
export const LABELS_NOT_IN_SNAPSHOTS = [
  SANDBOX_LABEL,
  TOKEN_LABEL,
  DEADLINE_LABEL,
  WHEN_OVER_LABEL,
  LAYER_LABEL,
  COMPOSED_LABEL,
]

export function containerName(owner: OwnerLabel, id: SandboxId): string {
  return `agentpod-${owner}-${id}`
}

/**
 * The name of a container that was stopped on purpose; names can change, labels cannot. It distinguishes such
 * a container from one that exited on its own, even for a server that did not run at the time.
 */
export function stoppedName(owner: OwnerLabel, id: SandboxId): string {
  return `${containerName(owner, id)}-stopped`
}

export function snapshotTag(id: SnapshotId): string {
  return `agentpod-snapshot:${id}`
}

/** Contains the owner, because another state directory may still need what this one removes. */
export function layerTag(owner: OwnerLabel, digest: string): string {
  return `agentpod-layer:${owner}-${digest}`
}

export function composedTag(owner: OwnerLabel, hash: string): string {
  return `agentpod-root:${owner}-${hash}`
}

export function volumeName(owner: OwnerLabel, digest: string): string {
  return `agentpod-${owner}-podd-${digest.slice(0, 16)}`
}
