/** Finds or composes the image for a root. */
import { createHash } from 'node:crypto'
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError } from '../../../core/error.ts'
import type { OwnerLabel, SnapshotId } from '../../../core/id.ts'
import type { Daemon } from '../daemon/daemon.ts'
import { listImages } from '../listing.ts'
import {
  COMPOSED_LABEL,
  composedTag,
  layerTag,
  OWN_LAYERS_LABEL,
  OWNER_LABEL,
  ROOT_LABEL,
  snapshotTag,
} from '../names.ts'
import { type Composition, compose, type StackedLayer } from './compose.ts'
import type { ImageInfo, ImageStore } from './image-store.ts'
import { type DockerRoot, rootRef } from './root-ref.ts'

/** Composing exports whole images, which may be large. */
const COMPOSE: CallOptions = { timeoutMs: 15 * 60_000 }

export interface RootsOptions {
  readonly daemon: Daemon
  readonly images: ImageStore
  readonly owner: OwnerLabel
}

/** The image that a container starts from, and how many of its top layers are not part of the root. */
export interface StartImage {
  readonly image: ImageInfo
  readonly ownLayers: number
}

export class RootImages {
  readonly #options: RootsOptions
  readonly #composing = new Map<string, Promise<void>>()

  constructor(options: RootsOptions) {
    this.#options = options
  }

  /** `not_found` if one of its layers, images or snapshots is missing. */
  async imageOf(root: DockerRoot, snapshot: SnapshotId | undefined, o: CallOptions): Promise<StartImage> {
    const base = await this.#base(root, o)
    const over = await Promise.all(root.over.map((id) => this.snapshot(id, o)))
    const own = snapshot === undefined ? [] : [await this.snapshot(snapshot, o)]
    const stack = [...base.flatMap(wholeOf), ...over.flatMap(ownLayersOf), ...own.flatMap(ownLayersOf)]
    const whole = [...own, ...over.toReversed(), ...base].find(
      (image) => isStack(image, stack) && !image.hasVolumes,
    )
    const image = whole ?? (await this.#composed(root, stack, o))
    return { image, ownLayers: own.flatMap(ownLayersOf).length }
  }

  async snapshot(id: SnapshotId, o: CallOptions): Promise<ImageInfo> {
    const found = await this.#options.images.find(snapshotTag(id), o)
    if (found) return found
    throw new AgentPodError({
      code: 'not_found',
      reason: 'snapshot.absent',
      message: `the Docker daemon has no snapshot ${id}`,
    })
  }

  /** Removes composed images that contain a layer or a snapshot. They are composed again when needed. */
  async forgetComposed(isIn: (root: string | undefined) => boolean, o: CallOptions): Promise<void> {
    const { images } = this.#options
    for (const { tag, labels } of await this.#listComposed(o))
      if (isIn(labels[ROOT_LABEL])) await images.untag(tag, o)
  }

  async #listComposed(o: CallOptions): Promise<{ tag: string; labels: Readonly<Record<string, string>> }[]> {
    const found = await listImages(this.#options.daemon, this.#options.owner, COMPOSED_LABEL, o)
    return found.flatMap(({ tags, labels }) => tags.map((tag) => ({ tag, labels })))
  }

  async #base(root: DockerRoot, o: CallOptions): Promise<ImageInfo[]> {
    const { images, owner } = this.#options
    if ('layers' in root)
      return Promise.all(
        root.layers.map(async (digest) => {
          const found = await images.find(layerTag(owner, digest), o)
          if (!found) throw absent('layer.absent', `the Docker daemon has no layer ${digest.slice(0, 12)}`)
          return found
        }),
      )
    const found = await images.find(root.image, o)
    if (!found)
      throw absent('image.unknown', `the Docker daemon no longer has the image ${root.image.slice(0, 19)}`)
    return [found]
  }

  /** A composition in progress continues when its caller gives up; the next create finds the result. */
  #compose(composition: Composition): Promise<void> {
    const { tag } = composition
    const under = this.#composing.get(tag)
    if (under) return under
    const work = compose(this.#options.daemon, composition, COMPOSE).finally(() =>
      this.#composing.delete(tag),
    )
    this.#composing.set(tag, work)
    return work
  }

  /** Composes an image once. */
  async #composed(root: DockerRoot, stack: readonly StackedLayer[], o: CallOptions): Promise<ImageInfo> {
    const { images, owner } = this.#options
    const [lowest] = stack
    if (!lowest) throw absent('image.empty', 'the image has no layers, so nothing can run in it')
    const hash = createHash('sha256')
      .update(stack.map(({ diffId }) => diffId).join('\n'))
      .digest('hex')
    const tag = composedTag(owner, hash)
    const found = await images.find(tag, o)
    if (found) return found
    const labels = {
      [OWNER_LABEL]: owner,
      [COMPOSED_LABEL]: hash,
      [ROOT_LABEL]: JSON.stringify(rootRef(root)),
    }
    await this.#compose({ tag, stack, labels, base: lowest.source })
    const made = await images.find(tag, o)
    if (made) return made
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'docker.load',
      message: 'the Docker daemon did not load the image that was composed for the sandbox',
      hint: 'try again; `docker system df` shows whether its disk is full',
    })
  }
}

function wholeOf(source: ImageInfo): StackedLayer[] {
  return source.layers.map((diffId) => ({ diffId, source }))
}

/** The layers that a snapshot has on top of its root. */
export function ownLayersOf(source: ImageInfo): StackedLayer[] {
  const count = Number(source.labels[OWN_LAYERS_LABEL] ?? 1)
  return source.layers.slice(-count).map((diffId) => ({ diffId, source }))
}

function isStack({ layers }: ImageInfo, stack: readonly StackedLayer[]): boolean {
  return layers.length === stack.length && stack.every(({ diffId }, index) => layers[index] === diffId)
}

function absent(reason: string, message: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason,
    message,
    hint: 'build the environment again, or pull the image again',
  })
}
