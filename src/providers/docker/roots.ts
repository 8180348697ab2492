/** From a root to the image that a container starts from. */
import { createHash } from 'node:crypto'
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError } from '../../core/error.ts'
import type { OwnerLabel, SnapshotId } from '../../core/id.ts'
import { type Composition, compose, type StackedLayer } from './compose.ts'
import type { Daemon } from './daemon.ts'
import type { ImageInfo, ImageStore } from './image-store.ts'
import { listImages } from './listing.ts'
import { COMPOSED, composedTag, layerTag, OWN_LAYERS, OWNER, ROOT, snapshotTag } from './names.ts'
import { type DockerRoot, rootRef } from './root-ref.ts'

/** The daemon hands out whole images for it, which may be large. */
const COMPOSE: CallOptions = { timeoutMs: 15 * 60_000 }

export interface RootsOptions {
  readonly daemon: Daemon
  readonly images: ImageStore
  readonly owner: OwnerLabel
}

/** What a container starts from, and how many layers of it, from the top, are not its root's. */
export interface Ground {
  readonly image: ImageInfo
  readonly ownLayers: number
}

export class Roots {
  readonly #options: RootsOptions
  readonly #composing = new Map<string, Promise<void>>()

  constructor(options: RootsOptions) {
    this.#options = options
  }

  /** `not_found` where a layer, an image or a snapshot of it is not there. */
  async imageOf(root: DockerRoot, snapshot: SnapshotId | undefined, o: CallOptions): Promise<Ground> {
    const base = await this.#base(root, o)
    const over = await Promise.all(root.over.map((id) => this.snapshot(id, o)))
    const own = snapshot === undefined ? [] : [await this.snapshot(snapshot, o)]
    const stack = [...base.flatMap(wholeOf), ...over.flatMap(ownOf), ...own.flatMap(ownOf)]
    const whole = [...own, ...over.toReversed(), ...base].find(
      (image) => isStack(image, stack) && !image.hasVolumes,
    )
    const image = whole ?? (await this.#composed(root, stack, o))
    return { image, ownLayers: own.flatMap(ownOf).length }
  }

  async snapshot(id: SnapshotId, o: CallOptions): Promise<ImageInfo> {
    const found = await this.#options.images.find(snapshotTag(id), o)
    if (found) return found
    throw new AgentPodError({
      code: 'not_found',
      reason: 'snapshot.absent',
      message: `there is no snapshot ${id} at the Docker daemon`,
    })
  }

  /** Composed images that have a layer or a snapshot in them. They are made again at need. */
  async forgetComposed(isIn: (root: string | undefined) => boolean, o: CallOptions): Promise<void> {
    const { images } = this.#options
    for (const { tag, labels } of await this.#listComposed(o))
      if (isIn(labels[ROOT])) await images.untag(tag, o)
  }

  async #listComposed(o: CallOptions): Promise<{ tag: string; labels: Readonly<Record<string, string>> }[]> {
    const found = await listImages(this.#options.daemon, this.#options.owner, COMPOSED, o)
    return found.flatMap(({ tags, labels }) => tags.map((tag) => ({ tag, labels })))
  }

  async #base(root: DockerRoot, o: CallOptions): Promise<ImageInfo[]> {
    const { images, owner } = this.#options
    if ('layers' in root)
      return Promise.all(
        root.layers.map(async (digest) => {
          const found = await images.find(layerTag(owner, digest), o)
          if (!found)
            throw absent('layer.absent', `there is no layer ${digest.slice(0, 12)} at the Docker daemon`)
          return found
        }),
      )
    const found = await images.find(root.image, o)
    if (!found)
      throw absent('image.unknown', `the Docker daemon has no image ${root.image.slice(0, 19)} any more`)
    return [found]
  }

  /** One that is under way goes on whoever gives up waiting; the next create finds it. */
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

  /** Made once. */
  async #composed(root: DockerRoot, stack: readonly StackedLayer[], o: CallOptions): Promise<ImageInfo> {
    const { images, owner } = this.#options
    const [lowest] = stack
    if (!lowest) throw absent('image.empty', 'the image has no layers, so nothing could run in it')
    const hash = createHash('sha256')
      .update(stack.map(({ diffId }) => diffId).join('\n'))
      .digest('hex')
    const tag = composedTag(owner, hash)
    const found = await images.find(tag, o)
    if (found) return found
    const labels = { [OWNER]: owner, [COMPOSED]: hash, [ROOT]: JSON.stringify(rootRef(root)) }
    await this.#compose({ tag, stack, labels, base: lowest.source })
    const made = await images.find(tag, o)
    if (made) return made
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'docker.load',
      message: 'the Docker daemon has not taken the image that was put together for the sandbox',
      hint: 'try again; `docker system df` says whether its disk is full',
    })
  }
}

function wholeOf(source: ImageInfo): StackedLayer[] {
  return source.layers.map((diffId) => ({ diffId, source }))
}

/** What a snapshot has on top of its root. */
export function ownOf(source: ImageInfo): StackedLayer[] {
  const count = Number(source.labels[OWN_LAYERS] ?? 1)
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
