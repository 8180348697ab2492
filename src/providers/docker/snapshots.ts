/** Snapshots as images, made by `docker commit`. The daemon lets a running container stand still meanwhile. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError } from '../../core/error.ts'
import { isSnapshotId, type OwnerLabel, type SandboxId, type SnapshotId } from '../../core/id.ts'
import type { Kept, Snapshots } from '../../core/provider.ts'
import type { Container } from './answers.ts'
import { fetchLayers, loadArchive, loadImage } from './compose.ts'
import type { Containers } from './containers.ts'
import { type Daemon, parseAnswer } from './daemon.ts'
import type { ImageInfo, ImageStore } from './image-store.ts'
import { readBundle, writeBundle } from './layer-bundle.ts'
import { listContainers, listImages } from './listing.ts'
import { NOT_OF_SNAPSHOTS, OWN_LAYERS, OWNER, ROOT, SNAPSHOT, snapshotTag } from './names.ts'
import { overIn, parseRoot, rootRef } from './root-ref.ts'
import { ownOf, type Roots } from './roots.ts'
import { handOut, spoolChecked, withDirectory } from './spool.ts'

const HISTORY = z.array(z.looseObject({ Size: z.number() }))

export interface SnapshotsOptions {
  readonly daemon: Daemon
  readonly containers: Containers
  readonly images: ImageStore
  readonly roots: Roots
}

export function snapshots(options: SnapshotsOptions): Snapshots {
  const { daemon, containers, images, roots } = options

  const kept = async (image: ImageInfo, o: CallOptions): Promise<Kept> => {
    const path = `/images/${encodeURIComponent(image.id)}/history`
    const history = parseAnswer(HISTORY, await daemon.json({ method: 'GET', path }, o))
    const own = history.slice(0, ownOf(image).length)
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
      const found = await listImages(daemon, owner, SNAPSHOT, o)
      return found
        .filter(({ tags }) => tags.length > 0)
        .map(({ labels }) => labels[SNAPSHOT] ?? '')
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
        const own = ownOf(image)
        const files = await fetchLayers(daemon, own, directory, o)
        const bundle = join(directory, 'bundle.tar')
        const digest = await writeBundle(
          own.map(({ diffId }) => files.get(diffId) ?? ''),
          bundle,
        )
        return await handOut(bundle, digest, directory)
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
          [OWNER]: owner,
          [SNAPSHOT]: id,
          [OWN_LAYERS]: String(files.size),
          [ROOT]: JSON.stringify(rootRef(root)),
        }
        const stack = [...below.layers, ...files.keys()].map((diffId) => ({ diffId, source: below }))
        await loadImage(daemon, loadArchive({ tag: snapshotTag(id), stack, labels, base: below }, files), o)
      })
      return kept(await roots.snapshot(id, o), o)
    },
  }
}

function rootOf(image: ImageInfo): Kept['root'] {
  try {
    return rootRef(parseRoot(JSON.parse(image.labels[ROOT] ?? '')))
  } catch (error) {
    throw new AgentPodError({
      code: 'data_loss',
      reason: 'snapshot.damaged',
      message: 'the image of the snapshot does not say what it stands on',
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
    ...Object.fromEntries(NOT_OF_SNAPSHOTS.map((label) => [label, ''])),
    [OWNER]: of.owner,
    [SNAPSHOT]: of.id,
    [OWN_LAYERS]: String(Number(Labels[OWN_LAYERS] ?? 0) + 1),
    [ROOT]: Labels[ROOT] ?? '',
  }
  const query = { container: container.Id, repo, tag, pause: '1' }
  await daemon.json({ method: 'POST', path: '/commit', query, body: { Labels: labels } }, o)
}

/** Whether a sandbox or another snapshot has it in its root. */
async function isBelow(daemon: Daemon, id: SnapshotId, o: CallOptions): Promise<boolean> {
  const [containers, others] = await Promise.all([
    listContainers(daemon, undefined, o),
    listImages(daemon, undefined, SNAPSHOT, o),
  ])
  const standing = [...containers.map(({ Labels }) => Labels), ...others.map(({ labels }) => labels)]
  return standing.some((labels) => overIn(labels[ROOT]).includes(id))
}

function used(id: SnapshotId): AgentPodError {
  return new AgentPodError({
    code: 'conflict',
    reason: 'snapshot.used',
    message: `a sandbox or another snapshot stands on the snapshot ${id}`,
    hint: 'destroy what stands on it first',
  })
}
