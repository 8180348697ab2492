/** Layers, stored as images with one layer each. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError } from '../../../core/error.ts'
import type { OwnerLabel } from '../../../core/id.ts'
import type { Layers } from '../../../core/provider.ts'
import { callSignal } from '../daemon/call-signal.ts'
import type { Daemon } from '../daemon/daemon.ts'
import { followProgress } from '../daemon/progress.ts'
import { listContainers, listImages } from '../listing.ts'
import { LAYER_LABEL, layerTag, OWNER_LABEL, ROOT_LABEL, SNAPSHOT_LABEL } from '../names.ts'
import { fetchLayers } from './compose.ts'
import type { ImageStore } from './image-store.ts'
import { layersIn, parseRoot } from './root-ref.ts'
import type { RootImages } from './roots.ts'
import { digestCheck, readAndRemove } from './spool.ts'

const DIGEST = /^[0-9a-f]{64}$/

export interface LayersOptions {
  readonly daemon: Daemon
  readonly images: ImageStore
  readonly roots: RootImages
  readonly owner: OwnerLabel
}

export function dockerLayers({ daemon, images, roots, owner }: LayersOptions): Layers {
  const has = async (digest: string, o: CallOptions): Promise<boolean> =>
    (await images.look(layerTag(owner, parseDigest(digest)), o)) !== undefined

  return {
    has,

    async import(digest, content, o) {
      if (await has(digest, o)) {
        content.destroy()
        return
      }
      const body = digestCheck(digest)
      content.once('error', (error) => body.destroy(error))
      const [repo = '', tag = ''] = layerTag(owner, digest).split(':')
      const changes = `LABEL ${OWNER_LABEL}=${owner} ${LAYER_LABEL}=${digest}`
      const query = { fromSrc: '-', repo, tag, changes }
      const ask = { method: 'POST', path: '/images/create', query, archive: content.pipe(body) } as const
      try {
        await followProgress(await daemon.stream(ask, o, callSignal(o)))
      } catch (error) {
        throw body.errored ?? error
      } finally {
        content.destroy()
        body.destroy()
      }
    },

    async remove(digest, o) {
      const tag = layerTag(owner, parseDigest(digest))
      const [containers, snapshots] = await Promise.all([
        listContainers(daemon, owner, o),
        listImages(daemon, owner, SNAPSHOT_LABEL, o),
      ])
      const standing = [...containers.map(({ Labels }) => Labels), ...snapshots.map(({ labels }) => labels)]
      if (standing.some((labels) => layersIn(labels[ROOT_LABEL]).includes(digest))) throw used(digest)
      await roots.forgetComposed((root) => layersIn(root).includes(digest), o)
      await images.untag(tag, o)
    },

    async export(digest, o) {
      const source = await images.find(layerTag(owner, parseDigest(digest)), o)
      const diffId = source?.layers.at(-1)
      if (!source || diffId === undefined) throw absent(digest)
      const directory = await mkdtemp(join(tmpdir(), 'agentpod-docker-'))
      try {
        const files = await fetchLayers(daemon, [{ diffId, source }], directory, o)
        return await readAndRemove(files.get(diffId) ?? '', diffId.slice('sha256:'.length), directory)
      } catch (error) {
        await rm(directory, { recursive: true, force: true })
        throw error
      }
    },

    root(digests) {
      return { layers: digests.map(parseDigest) }
    },

    of(root) {
      const parsed = parseRoot(root)
      return 'layers' in parsed ? parsed.layers : []
    },
  }
}

function parseDigest(digest: string): string {
  if (DIGEST.test(digest)) return digest
  throw new AgentPodError({
    code: 'invalid_argument',
    reason: 'layer.digest',
    message: 'a digest must be 64 hexadecimal digits',
  })
}

function used(digest: string): AgentPodError {
  return new AgentPodError({
    code: 'conflict',
    reason: 'layer.used',
    message: `the layer ${digest.slice(0, 12)} is used by a sandbox or a snapshot`,
    hint: 'destroy the sandboxes and snapshots that use it first',
  })
}

function absent(digest: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'layer.absent',
    message: `the Docker daemon has no layer ${digest.slice(0, 12)}`,
  })
}
