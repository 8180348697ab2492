/** Images of the daemon. An id or one of our tags always means the same image, so answers are cached. */
import type { CallOptions } from '../../../core/call.ts'
import { isAgentPodError } from '../../../core/error.ts'
import { type Daemon, parseAnswer } from '../daemon/daemon.ts'
import { IMAGE } from '../daemon/responses.ts'

const MOST_KEPT = 1000

export interface ImageInfo {
  readonly id: string
  /** The digests of its layers' content, lowest first. */
  readonly layers: readonly string[]
  readonly labels: Readonly<Record<string, string>>
  readonly env: readonly string[]
  readonly user: string
  readonly workdir: string
  readonly architecture: string
  readonly os: string
  readonly sizeBytes: number
  /** Whether it declares volumes, which no snapshot would contain. */
  readonly hasVolumes: boolean
  readonly tags: readonly string[]
  readonly digests: readonly string[]
}

export class ImageStore {
  readonly #daemon: Daemon
  readonly #known = new Map<string, ImageInfo>()

  constructor(daemon: Daemon) {
    this.#daemon = daemon
  }

  /** By an id or one of our tags. */
  async find(ref: string, o: CallOptions): Promise<ImageInfo | undefined> {
    const known = this.#known.get(ref)
    if (known) return known
    const found = await this.look(ref, o)
    if (!found) return undefined
    if (this.#known.size >= MOST_KEPT) this.#known.clear()
    this.#known.set(ref, found)
    return found
  }

  /** By any name, without the cache. */
  async look(ref: string, o: CallOptions): Promise<ImageInfo | undefined> {
    try {
      const answer = await this.#daemon.json(
        { method: 'GET', path: `/images/${encodeURIComponent(ref)}/json` },
        o,
      )
      return infoOf(parseAnswer(IMAGE, answer))
    } catch (error) {
      if (isAgentPodError(error, 'not_found')) return undefined
      throw error
    }
  }

  /** Called after a removal, and when the daemon contradicts the cache. */
  forget(): void {
    this.#known.clear()
  }

  /** Removes the tag; the image itself goes when nothing uses it. Idempotent. */
  async untag(tag: string, o: CallOptions): Promise<void> {
    this.forget()
    await this.#delete(tag, { force: '1' }, o)
  }

  /** Removes an image that has no tag and is not used. Any other image stays. */
  async removeUnused(id: string, o: CallOptions): Promise<void> {
    const image = await this.look(id, o)
    if (image && image.tags.length === 0 && image.digests.length === 0) await this.#delete(id, {}, o)
  }

  async #delete(ref: string, query: Record<string, string>, o: CallOptions): Promise<void> {
    try {
      await this.#daemon.json({ method: 'DELETE', path: `/images/${encodeURIComponent(ref)}`, query }, o)
    } catch (error) {
      // In use, or already gone.
      if (!isAgentPodError(error, 'not_found') && !isAgentPodError(error, 'conflict')) throw error
    }
  }
}

function infoOf(image: ReturnType<typeof IMAGE.parse>): ImageInfo {
  const config = image.Config
  return {
    id: image.Id,
    layers: image.RootFS.Layers,
    labels: config?.Labels ?? {},
    env: config?.Env ?? [],
    user: config?.User ?? '',
    workdir: config?.WorkingDir ?? '',
    architecture: image.Architecture,
    os: image.Os,
    sizeBytes: image.Size,
    hasVolumes: Object.keys(config?.Volumes ?? {}).length > 0,
    tags: image.RepoTags.filter((tag) => tag !== '<none>:<none>'),
    digests: image.RepoDigests.filter((digest) => !digest.startsWith('<none>@')),
  }
}
