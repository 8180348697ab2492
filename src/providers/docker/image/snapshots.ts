/** Snapshots as images, made by `docker commit`. The daemon freezes a running container meanwhile. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as z from 'zod'
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError } from '../../../core/error.ts'
import { isSnapshotId, type OwnerLabel, type SandboxId, type SnapshotId } from '../../../core/id.ts'
import type { Snapshots, StoredSnapshot } from '../../../core/provider.ts'
import type { Containers } from '../container/containers.ts'
import { type Daemon, parseAnswer } from '../daemon/daemon.ts'
import type { Container } from '../daemon/responses.ts'
import { listContainers, listImages } from '../listing.ts'
import {
  LABELS_NOT_IN_SNAPSHOTS,
  OWN_LAYERS_LABEL,
  OWNER_LABEL,
  ROOT_LABEL,
  SNAPSHOT_LABEL,
  snapshotTag,
} from '../names.ts'
import { fetchLayers, loadArchive, loadImage } from './compose.ts'
import type { ImageInfo, ImageStore } from './image-store.ts'
import { readBundle, writeBundle } from './layer-bundle.ts'
import { overIn, parseRoot, rootRef } from './root-ref.ts'
import { ownLayersOf, type RootImages } from './roots.ts'
import { readAndRemove, spoolChecked, withDirectory } from './spool.ts'

const HISTORY = z.array(z.looseObject({ Size: z.number() }))

export interface SnapshotsOptions {
  readonly daemon: Daemon
  readonly containers: Containers
  readonly images: ImageStore
  readonly roots: RootImages
}

export function dockerSnapshots(options: SnapshotsOptions): Snapshots {
  const { daemon, containers, images, roots } = options

  const kept = async (image: ImageInfo, o: CallOptions): Promise<StoredSnapshot> => {
    const path = `/images/${encodeURIComponent(image.id)}/history`
    const history = parseAnswer(HISTORY, await daemon.json({ method: 'GET', path }, o))
    const own = history.slice(0, ownLayersOf(image).length)
    return { sizeBytes: own.reduce((sum, { Size }) => sum + Size, 0), root: rootOf(image) }
  }

  return {
    async create(id, sandboxId, owner, o) {
      const done = await images.look(snapshotTag(id), o)
      if (done) return kept(done, o)
      const container = await containers.need(sandboxId, o)
      await commit(daemon, container, { id, sandboxId, owner }, o)
      return kept(await roots.snapshot(id, o), o)
    },

    async list(owner, o) {
      const found = await listImages(daemon, owner, SNAPSHOT_LABEL, o)
      return found
        .filter(({ tags }) => tags.length > 0)
        .map(({ labels }) => labels[SNAPSHOT_LABEL] ?? '')
        .filter(isSnapshotId)
    },

    async remove(id, o) {
      if (!(await images.look(snapshotTag(id), o))) return
      if (await isBelow(daemon, id, o)) throw used(id)
      await roots.forgetComposed((root) => overIn(root).includes(id), o)
      await images.untag(snapshotTag(id), o)
    },

    async export(id, o) {
      const image = await roots.snapshot(id, o)
      const directory = await mkdtemp(join(tmpdir(), 'agentpod-docker-'))
      try {
        const own = ownLayersOf(image)
        const files = await fetchLayers(daemon, own, directory, o)
        const bundle = join(directory, 'bundle.tar')
        const digest = await writeBundle(
          own.map(({ diffId }) => files.get(diffId) ?? ''),
          bundle,
        )
        return await readAndRemove(bundle, digest, directory)
      } catch (error) {
        await rm(directory, { recursive: true, force: true })
        throw error
      }
    },

    async import(id, owner, packed, o) {
      const done = await images.look(snapshotTag(id), o)
      if (done) {
        packed.content.destroy()
        return kept(done, o)
      }
      const root = parseRoot(packed.root)
      const { image: below } = await roots.imageOf(root, undefined, o)
      await withDirectory(async (directory) => {
        const bundle = join(directory, 'bundle.tar')
        await spoolChecked(packed.content, bundle, packed.digest)
        const files = await readBundle(bundle, directory)
        const labels = {
          [OWNER_LABEL]: owner,
          [SNAPSHOT_LABEL]: id,
          [OWN_LAYERS_LABEL]: String(files.size),
          [ROOT_LABEL]: JSON.stringify(rootRef(root)),
        }
        const stack = [...below.layers, ...files.keys()].map((diffId) => ({ diffId, source: below }))
        await loadImage(daemon, loadArchive({ tag: snapshotTag(id), stack, labels, base: below }, files), o)
      })
      return kept(await roots.snapshot(id, o), o)
    },
  }
}

function rootOf(image: ImageInfo): StoredSnapshot['root'] {
  try {
    return rootRef(parseRoot(JSON.parse(image.labels[ROOT_LABEL] ?? '')))
  } catch (error) {
    throw new AgentPodError({
      code: 'data_loss',
      reason: 'snapshot.damaged',
      message: 'the image of the snapshot has no label with its root',
      cause: error,
    })
  }
}

async function commit(
  daemon: Daemon,
  container: Container,
  of: { readonly id: SnapshotId; readonly sandboxId: SandboxId; readonly owner: OwnerLabel },
  o: CallOptions,
): Promise<void> {
  const { Labels } = container.Config
  const [repo = '', tag = ''] = snapshotTag(of.id).split(':')
  const labels = {
    ...Object.fromEntries(LABELS_NOT_IN_SNAPSHOTS.map((label) => [label, ''])),
    [OWNER_LABEL]: of.owner,
    [SNAPSHOT_LABEL]: of.id,
    [OWN_LAYERS_LABEL]: String(Number(Labels[OWN_LAYERS_LABEL] ?? 0) + 1),
    [ROOT_LABEL]: Labels[ROOT_LABEL] ?? '',
  }
  const query = { container: container.Id, repo, tag, pause: '1' }
  await daemon.json({ method: 'POST', path: '/commit', query, body: { Labels: labels } }, o)
}

/** Whether it is part of the root of a sandbox or of another snapshot. */
async function isBelow(daemon: Daemon, id: SnapshotId, o: CallOptions): Promise<boolean> {
  const [containers, others] = await Promise.all([
    listContainers(daemon, undefined, o),
    listImages(daemon, undefined, SNAPSHOT_LABEL, o),
  ])
  const standing = [...containers.map(({ Labels }) => Labels), ...others.map(({ labels }) => labels)]
  return standing.some((labels) => overIn(labels[ROOT_LABEL]).includes(id))
}

function used(id: SnapshotId): AgentPodError {
  return new AgentPodError({
    code: 'conflict',
    reason: 'snapshot.used',
    message: `the snapshot ${id} is used by a sandbox or another snapshot`,
    hint: 'destroy the sandboxes and snapshots that use it first',
  })
}
