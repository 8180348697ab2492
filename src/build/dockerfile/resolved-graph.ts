/** What the graph of a Dockerfile says about its vertices, with the images that were resolved for it. */
import { AgentPodError, invalid } from '../../core/error.ts'
import { atDigest, imageText, parseImageRef } from '../../core/image-ref.ts'
import { EMPTY_IMAGE, type Image, type Provider, type RootRef } from '../../core/provider.ts'
import type { LayerInfo } from '../../core/snapshot.ts'
import type { DockerfileRequest } from './dockerfile-request.ts'
import { type ExecMount, type Graph, isStep, NOTHING, type Vertex } from './graph.ts'
import { type Below, type CacheOwner, instructionOf, missingSecret } from './run-vertex.ts'

/** podhost stacks at most 64 snapshots over an image. */
const MOST_IN_A_ROW = 60

export class ResolvedGraph {
  readonly graph: Graph
  readonly #images: ReadonlyMap<string, Image>
  readonly #provider: Provider

  constructor(graph: Graph, images: ReadonlyMap<string, Image>, provider: Provider) {
    this.graph = graph
    this.#images = images
    this.#provider = provider
  }

  vertex(number: number): Vertex {
    const found = this.graph.vertices[number]
    if (!found) throw new RangeError(`there is no vertex ${number}`)
    return found
  }

  isStep(number: number): boolean {
    return isStep(this.vertex(number))
  }

  /** The vertex that it begins with. */
  rootOf(number: number): number {
    const { exec, file } = this.vertex(number)
    return exec?.root ?? file?.root ?? NOTHING
  }

  /** The variables of an image, by its name in full. */
  variablesOf(image: string | undefined): Readonly<Record<string, string>> | undefined {
    return image === undefined ? undefined : this.#images.get(image)?.env
  }

  /** Before anything is built. */
  checkSecrets(request: DockerfileRequest): void {
    for (const vertex of this.graph.vertices) {
      const asked = [
        ...(vertex.exec?.mounts ?? []).filter(({ kind }) => kind === 'secret'),
        ...(vertex.exec?.secrets ?? []),
      ]
      for (const { id = '', optional: isOptional } of asked)
        if (!isOptional && request.secrets[id] === undefined) throw missingSecret(id, vertex, request)
    }
  }

  imageOf(ref: string): Image {
    const name = imageText(parseImageRef(ref))
    const found = this.#images.get(ref) ?? this.#images.get(name)
    if (found) return found
    throw new AgentPodError({
      code: 'internal',
      reason: 'dockerfile.image',
      message: `the image ${ref} was not resolved`,
    })
  }

  rootOfImage(number: number): RootRef {
    if (number === NOTHING) {
      const { layers } = this.#provider
      return layers?.root([]) ?? {}
    }
    const { image } = this.vertex(number)
    return image ? this.imageOf(image.ref).root : {}
  }

  /** Whether it reads files of an input, besides beginning with them. */
  reads({ exec, file }: Vertex, input: number): boolean {
    return (
      file?.actions.some(({ copy }) => copy?.from === input) ||
      exec?.mounts?.some(({ from }) => from === input) ||
      false
    )
  }

  /** The files that the vertices on `root` begin with. */
  below(root: number, keys: readonly string[]): Below {
    if (root === NOTHING) return { kind: 'base', image: EMPTY_IMAGE }
    const { image, local } = this.vertex(root)
    if (image) return { kind: 'base', image: this.#pinned(image.ref, this.imageOf(image.ref).digest) }
    if (local) throw invalid('dockerfile.operation', 'the build context cannot be the root of a step')
    return { kind: 'layer', key: keys[root] ?? '' }
  }

  /** The same image for every step, even if its tag moves during the build. */
  #pinned(ref: string, digest: string): string {
    const name = parseImageRef(ref)
    return imageText(imageText(name) === EMPTY_IMAGE ? name : atDigest(name, digest))
  }

  /** BuildKit writes the owner of a cache as an empty directory that it begins with. */
  cacheOwners({ exec }: Vertex): Map<ExecMount, CacheOwner> {
    const owners = new Map<ExecMount, CacheOwner>()
    for (const mount of exec?.mounts ?? []) {
      if (mount.kind !== 'cache' || mount.from === NOTHING) continue
      const [first] = this.vertex(mount.from).file?.actions ?? []
      if (!first?.mkdir) continue
      const { mode, owner } = first.mkdir
      const uid = Number(owner?.user ?? 0)
      owners.set(mount, { uid, gid: Number(owner?.group ?? uid), mode })
    }
    return owners
  }

  /** The image at the bottom of a vertex. */
  baseOf(number: number): LayerInfo['base'] {
    let at = number
    while (at !== NOTHING) {
      const { image } = this.vertex(at)
      if (image)
        return {
          name: 'image',
          image: imageText(parseImageRef(image.ref)),
          digest: this.imageOf(image.ref).digest,
        }
      at = this.rootOf(at)
    }
    return { name: 'image', image: EMPTY_IMAGE }
  }

  /** The longest chain of layers, before anything is built. */
  checkDepth(request: DockerfileRequest): void {
    const depths: number[] = []
    for (const [number, vertex] of this.graph.vertices.entries()) {
      const root = vertex.exec?.root ?? vertex.file?.root ?? NOTHING
      const depth = isStep(vertex) ? (depths[root] ?? 0) + 1 : 0
      depths[number] = depth
      if (depth > MOST_IN_A_ROW)
        throw invalid(
          'dockerfile.large',
          `${instructionOf(vertex, request)} is instruction ${depth} of its stage; at most ${MOST_IN_A_ROW} can change files`,
          'join RUN lines with a heredoc or &&, and COPY lines to the same directory',
        )
    }
  }
}
