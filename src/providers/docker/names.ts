/** What containers, volumes and images of ours are called, and the labels by which they are found again without any other record. */
import type { OwnerLabel, SandboxId, SnapshotId } from '../../core/id.ts'

export const OWNER = 'agentpod.owner'
export const SANDBOX = 'agentpod.sandbox'
/**
 * What podd wants to hear on a connection. Everybody who can read the labels of a container can also run programs in it, so it tells them
 * nothing that they need. Programs inside cannot read it.
 */
export const TOKEN = 'agentpod.token'
export const DEADLINE = 'agentpod.deadline'
export const WHEN_OVER = 'agentpod.when-over'
/** The root that a container or a snapshot stands on, as JSON. */
export const ROOT = 'agentpod.root'
/** Of a container: the snapshot it began with. Of an image: the snapshot that it is. */
export const SNAPSHOT = 'agentpod.snapshot'
/** How many layers, from the top, are a snapshot's or a container's own and not its root's. */
export const OWN_LAYERS = 'agentpod.own-layers'
export const LAYER = 'agentpod.layer'
export const COMPOSED = 'agentpod.composed'
export const PODD = 'agentpod.podd'

/** Cleared in the image of a snapshot, which else would have all labels of its container. */
export const NOT_OF_SNAPSHOTS = [SANDBOX, TOKEN, DEADLINE, WHEN_OVER, LAYER, COMPOSED]

export function containerName(owner: OwnerLabel, id: SandboxId): string {
  return `agentpod-${owner}-${id}`
}

/**
 * A container that was stopped on purpose is called so: labels cannot change, names can. It then is told from one that ended by itself,
 * also by a server that was not there.
 */
export function stoppedName(owner: OwnerLabel, id: SandboxId): string {
  return `${containerName(owner, id)}-stopped`
}

export function snapshotTag(id: SnapshotId): string {
  return `agentpod-snapshot:${id}`
}

/** Of one owner's: what one state directory removes, another may still need. */
export function layerTag(owner: OwnerLabel, digest: string): string {
  return `agentpod-layer:${owner}-${digest}`
}

export function composedTag(owner: OwnerLabel, hash: string): string {
  return `agentpod-root:${owner}-${hash}`
}

export function volumeName(owner: OwnerLabel, digest: string): string {
  return `agentpod-${owner}-podd-${digest.slice(0, 16)}`
}
