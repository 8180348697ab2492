/**
 * Builds Dockerfiles. podimage says what has to be done; each vertex runs in a new sandbox on the files below
 * it, and what it writes becomes a layer. Vertices whose layer exists are not run, nor what only they need.
 */
import { AgentPodError, invalid } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import { atDigest, imageText, parseImageRef } from '../../core/image-ref.ts'
import { LOCAL } from '../../core/principal.ts'
import { EMPTY_IMAGE, type Image, type Provider, type RootRef } from '../../core/provider.ts'
import type { LayerInfo } from '../../core/snapshot.ts'
import type { Engine } from '../../engine/engine.ts'
import { mayUseLayer, rootWithLayer } from '../../engine/snapshots/layers.ts'
import type { Layer } from '../../engine/snapshots/snapshot-registry.ts'
import { ignore, type Log } from '../../telemetry/log.ts'
import type { Clock } from '../../util/clock.ts'
import { KeyedLock } from '../../util/keyed-lock.ts'
import { type Random, randomWord } from '../../util/random.ts'
import { explainMiss } from '../cache-miss.ts'
import type { InputFiles } from '../input-files.ts'
import { baseKey } from '../layer-key.ts'
import type { DockerfileJob, DockerfileRequest, DockerfileResult } from './dockerfile-request.ts'
import type { FrontEnd, Selection } from './front-end.ts'
import {
  CHECKOUT,
  type ExecMount,
  type Graph,
  inputsOf,
  isStep,
  NOTHING,
  type Selected,
  type Vertex,
} from './graph.ts'
import type { OwnLayers } from './own-layers.ts'
import {
  type Below,
  type CacheOwner,
  cacheName,
  instructionOf,
  missingSecret,
  runVertex,
  type VertexSource,
} from './run-vertex.ts'
import { namesOf, stepOf, titleOf, vertexKey } from './vertex-key.ts'

export interface DockerfileParts {
  readonly engine: Engine
  readonly files: InputFiles
  readonly frontEnd: FrontEnd
  readonly ownLayers: OwnLayers
  readonly arch: string
  readonly clock: Clock
  readonly random: Random
  readonly log: Log
  /** Keeps a layer from being removed while it is used. */
  hold(key: string): () => boolean
}

const PULL = { timeoutMs: 30 * 60_000 }
const SAVE = { timeoutMs: 60 * 60_000 }
/** More would only make each other slower. */
const AT_ONCE = 2
/** podhost stacks at most 64 snapshots over an image. */
const MOST_IN_A_ROW = 60

export class DockerfileBuilder {
  readonly #parts: DockerfileParts
  readonly #lock = new KeyedLock()

  constructor(parts: DockerfileParts) {
    this.#parts = parts
  }

  async build(request: DockerfileRequest, o: DockerfileJob): Promise<DockerfileResult> {
    const { files, frontEnd } = this.#parts
    if (request.tag !== undefined) checkTag(request.tag, o)
    if (request.context !== undefined && !files.has(o.who.owner, request.context))
      return { kind: 'needs', files: [request.context] }
    const images = new Map<string, Image>()
    const allowed = request.images && new Set(request.images.map((ref) => imageText(parseImageRef(ref))))
    const provider = await this.#provider(o)
    await this.#parts.ownLayers.sweep(provider)
    const resolve = async (ref: string): Promise<Image> => {
      const known = images.get(ref)
      if (known) return known
      const name = imageText(parseImageRef(ref))
      if (allowed && name !== EMPTY_IMAGE && !allowed.has(name)) throw imageRefused(request, ref)
      const image = await this.#image(provider, ref, o)
      images.set(ref, image)
      return image
    }
    const graph = await frontEnd.graph(request, {
      signal: o.signal,
      resolve: async (ref) => {
        const { digest, config } = await resolve(ref)
        if (config === undefined) throw noConfig(ref)
        return { ref, digest, config }
      },
    })
    await o.onWarnings(graph.warnings)
    const build = new Build(this.#parts, { request, graph, provider, images, lock: this.#lock }, o)
    return await build.run()
  }

  async #provider(o: DockerfileJob): Promise<Provider> {
    const { engine } = this.#parts
    const wish = { name: 'image' as const, image: EMPTY_IMAGE }
    const { provider } = await engine.providers.prepareBase(wish, () => undefined, o.provider)
    const { rootMounts } = await provider.capabilities(PULL)
    if (provider.layers && provider.images?.store && rootMounts) return provider
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'dockerfile.provider',
      message: `the provider ${provider.name} does not build Dockerfiles`,
      hint: 'leave --provider out: this machine builds them',
    })
  }

  #image(provider: Provider, ref: string, o: DockerfileJob): Promise<Image> {
    const tell = (text: string): void => void o.onEvent({ kind: 'progress', text })
    if (!provider.images) throw new TypeError('the provider was checked to have images')
    const name = imageText(parseImageRef(ref))
    return provider.images.ensure(name, tell, { ...PULL, signal: o.signal, isAnonymous: !o.who.isAdmin })
  }
}

interface BuildInputs {
  readonly request: DockerfileRequest
  readonly graph: Graph
  readonly provider: Provider
  readonly images: ReadonlyMap<string, Image>
  readonly lock: KeyedLock
}

/** One build. */
class Build {
  readonly #parts: DockerfileParts
  readonly #in: BuildInputs
  readonly #o: DockerfileJob
  readonly #keys: string[] = []
  readonly #names: readonly string[]
  readonly #layers = new Map<number, Promise<Layer>>()
  readonly #releases: (() => unknown)[] = []
  readonly #stop = new AbortController()
  readonly #salt: string | undefined
  readonly #selected = new Map<string, Selected>()
  #context: Promise<RootRef> | undefined
  #program: Promise<RootRef> | undefined
  #running = 0
  readonly #waiting: (() => void)[] = []

  constructor(parts: DockerfileParts, inputs: BuildInputs, o: DockerfileJob) {
    this.#parts = parts
    this.#in = inputs
    this.#o = { ...o, signal: AbortSignal.any([o.signal, this.#stop.signal]) }
    this.#names = namesOf(inputs.graph.vertices)
    this.#salt = inputs.request.useCache ? undefined : randomWord(parts.random, 16)
  }

  async run(): Promise<DockerfileResult> {
    const { graph, request } = this.#in
    try {
      this.#checkSecrets()
      checkDepth(graph, request)
      await this.#select()
      for (const number of graph.vertices.keys()) this.#keys[number] = await this.#keyOf(number)
      for (const key of this.#keys) this.#releases.push(this.#parts.hold(key))
      const last = graph.result
      const layer = last === NOTHING || !this.#isStep(last) ? undefined : await this.#layer(last)
      await this.#tellUnneeded()
      return await this.#result(layer)
    } catch (error) {
      this.#stop.abort()
      throw error
    } finally {
      // Other stages end before the files that they use are released.
      await Promise.allSettled(this.#layers.values())
      for (const release of this.#releases.toReversed()) await release()
      if (request.context !== undefined) this.#parts.files.remove(this.#o.who.owner, request.context)
    }
  }

  async #result(layer: Layer | undefined): Promise<DockerfileResult> {
    const { request, graph, provider } = this.#in
    const config = Buffer.from(graph.config, 'base64').toString('utf8')
    const root = layer ? rootWithLayer(layer) : this.#rootOfImage(graph.result)
    const own = [...this.#layers.values()]
    const sizes = await Promise.all(own.map(async (one) => (await one).sizeBytes))
    const tell = (text: string): void => void this.#o.onEvent({ kind: 'progress', text })
    const mountPoints = new Map(
      this.#parts.engine.layers.list().map(({ id, layer: one }) => [id, one.step.mountPoints ?? []]),
    )
    const source = { root, settings: { env: {}, config }, mountPoints }
    const image =
      request.tag === undefined
        ? undefined
        : await provider.images?.store?.save(source, request.tag, tell, { ...SAVE, signal: this.#o.signal })
    return {
      kind: 'built',
      digest: layer?.layer.key,
      image: image && { ref: image.ref, digest: image.digest },
      config,
      steps: graph.vertices.filter(isStep).length,
      sizeBytes: sizes.reduce((sum, one) => sum + one, 0),
    }
  }

  #vertex(number: number): Vertex {
    const found = this.#in.graph.vertices[number]
    if (!found) throw new RangeError(`there is no vertex ${number}`)
    return found
  }

  #isStep(number: number): boolean {
    return isStep(this.#vertex(number))
  }

  /** Before anything is built. */
  #checkSecrets(): void {
    const { graph, request } = this.#in
    for (const vertex of graph.vertices) {
      const asked = [
        ...(vertex.exec?.mounts ?? []).filter(({ kind }) => kind === 'secret'),
        ...(vertex.exec?.secrets ?? []),
      ]
      for (const { id = '', optional: isOptional } of asked)
        if (!isOptional && request.secrets[id] === undefined) throw missingSecret(id, vertex, request)
    }
  }

  /** Finds out what each copy and mount reads of the context. */
  async #select(): Promise<void> {
    const { graph, request } = this.#in
    const wanted = new Map<string, Selection>()
    for (const [number, vertex] of graph.vertices.entries())
      for (const [at, selection] of this.#selectionsOf(vertex).entries())
        if (selection) wanted.set(`${number}/${at}`, selection)
    if (wanted.size === 0) return
    if (request.context === undefined) throw noContext(request)
    const archive = this.#parts.files.path(this.#o.who.owner, request.context)
    const found = await this.#parts.frontEnd.select(archive, [...wanted.values()], this.#o.signal)
    for (const [at, place] of [...wanted.keys()].entries()) {
      const selected = found[at]
      if (selected) this.#selected.set(place, selected)
    }
  }

  /** For each action or mount: what it reads of the context, if it reads it. */
  #selectionsOf({ exec, file }: Vertex): (Selection | undefined)[] {
    const isContext = (number: number): boolean => number !== NOTHING && !!this.#vertex(number).local
    if (file)
      return file.actions.map(({ copy }) => {
        if (!copy || !isContext(copy.from)) return undefined
        const { src, wildcard, include, exclude } = copy
        return { src, wildcard, include, exclude }
      })
    return (exec?.mounts ?? []).map(({ from, selector }) =>
      isContext(from) ? { src: selector ?? '/' } : undefined,
    )
  }

  #selectedOf(number: number): (Selected | undefined)[] {
    return this.#selectionsOf(this.#vertex(number)).map((_, at) => this.#selected.get(`${number}/${at}`))
  }

  async #keyOf(number: number): Promise<string> {
    const vertex = this.#vertex(number)
    const { provider, request } = this.#in
    if (vertex.local) return `context ${request.context}`
    if (vertex.image) {
      const { digest, root } = this.#imageOf(vertex.image.ref)
      return baseKey({ name: 'image', digest }, provider, root, this.#parts.arch)
    }
    const inputs = {
      key: (one: number) => this.#keys[one] ?? '',
      selected: this.#selectedOf(number),
      network: [...request.network, ...request.deny],
      salt: vertex.noCache ? randomWord(this.#parts.random, 16) : this.#salt,
    }
    const checksum = vertex.http?.checksum ?? vertex.git?.checksum
    if ((!vertex.http && !vertex.git) || checksum) return vertexKey(vertex, inputs)
    return this.#fetchNow(number, (content) => vertexKey(vertex, { ...inputs, content }))
  }

  /**
   * An address without a checksum is asked at each build, because what it gives may have changed. The layer
   * has the key of what was found, so that later steps are built again only then.
   */
  async #fetchNow(number: number, keyFor: (content: string) => string): Promise<string> {
    const { engine } = this.#parts
    await this.#tell(number, 'started', { why: 'its address is asked at each build' })
    const startedAt = performance.now()
    const { sandboxId, printed } = await this.#run(number)
    const key = keyFor(printed)
    const there = engine.layers.get(key)
    if (there) {
      await this.#destroy(sandboxId)
      this.#layers.set(number, Promise.resolve(engine.layers.addOwner(there, this.#o.who.owner)))
    } else {
      const kept = this.#keep(sandboxId, number, key)
      this.#layers.set(number, kept)
      await kept
    }
    await this.#tell(number, 'done', { ms: Math.round(performance.now() - startedAt) })
    return key
  }

  #imageOf(ref: string): Image {
    const { images } = this.#in
    const name = imageText(parseImageRef(ref))
    const found = images.get(ref) ?? images.get(name)
    if (found) return found
    throw new AgentPodError({
      code: 'internal',
      reason: 'dockerfile.image',
      message: `the image ${ref} was not resolved`,
    })
  }

  #rootOfImage(number: number): RootRef {
    if (number === NOTHING) {
      const { layers } = this.#in.provider
      return layers?.root([]) ?? {}
    }
    const { image } = this.#vertex(number)
    return image ? this.#imageOf(image.ref).root : {}
  }

  /** The layer of a vertex, made once. */
  #layer(number: number): Promise<Layer> {
    const under = this.#layers.get(number)
    if (under) return under
    const key = this.#keys[number] ?? ''
    // Two builds of the same layer run one after the other; the second finds the layer.
    const made = this.#in.lock.run(key, () => this.#make(number, key))
    this.#layers.set(number, made)
    // The first failure ends the others.
    made.catch(() => this.#stop.abort())
    return made
  }

  async #make(number: number, key: string): Promise<Layer> {
    const { engine } = this.#parts
    if (this.#o.signal.aborted) throw canceled()
    const there = engine.layers.get(key)
    if (there) {
      const shared = engine.layers.addOwner(there, this.#o.who.owner)
      await this.#tell(number, 'cached')
      return shared
    }
    const needed = inputsOf(this.#vertex(number)).filter((one) => this.#isStep(one))
    await Promise.all(needed.map((one) => this.#layer(one)))
    return await this.#inTurn(async () => {
      await this.#tell(number, 'started', { why: this.#explain(number) })
      const startedAt = performance.now()
      const { sandboxId } = await this.#withCaches(number, () => this.#run(number))
      const layer = await this.#keep(sandboxId, number, key)
      const ms = Math.round(performance.now() - startedAt)
      await this.#tell(number, 'done', { ms, sizeBytes: layer.sizeBytes })
      return layer
    })
  }

  /** At most `AT_ONCE` vertices run at the same time. */
  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= AT_ONCE) await new Promise<void>((resolve) => this.#waiting.push(resolve))
    else this.#running += 1
    try {
      if (this.#o.signal.aborted) throw canceled()
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#running -= 1
    }
  }

  /** Caches that are not shared are used by one command at a time. */
  #withCaches<T>(number: number, work: () => Promise<T>): Promise<T> {
    const mounts = this.#vertex(number).exec?.mounts ?? []
    const names = mounts
      .filter(({ kind, sharing }) => kind === 'cache' && sharing !== 'shared')
      .map((mount) => cacheName(this.#o.who.owner, mount))
    const locked = [...new Set(names)]
      .sort()
      .reduce<() => Promise<T>>((inner, name) => () => this.#in.lock.run(name, inner), work)
    return locked()
  }

  async #run(number: number): Promise<{ readonly sandboxId: SandboxId; readonly printed: string }> {
    const vertex = this.#vertex(number)
    const { request } = this.#in
    const root = vertex.exec?.root ?? vertex.file?.root ?? NOTHING
    const sources = new Map<number, VertexSource>()
    for (const one of inputsOf(vertex)) {
      if (one === root && !this.#reads(vertex, one)) continue
      const { git, local } = this.#vertex(one)
      const from = git && CHECKOUT
      sources.set(one, { root: await this.#rootOf(one), from, isRoot: !git && !local })
    }
    this.#program ??= this.#parts.ownLayers.program(this.#in.provider)
    return runVertex(
      this.#parts,
      {
        vertex,
        name: this.#names[number] ?? '',
        below: this.#below(root),
        sources,
        program: await this.#program,
        cacheOwners: this.#cacheOwners(vertex),
        request,
        network: request.network,
      },
      this.#o,
    )
  }

  #reads({ exec, file }: Vertex, input: number): boolean {
    return (
      file?.actions.some(({ copy }) => copy?.from === input) ||
      exec?.mounts?.some(({ from }) => from === input) ||
      false
    )
  }

  #below(root: number): Below {
    if (root === NOTHING) return { kind: 'base', image: EMPTY_IMAGE }
    const { image, local } = this.#vertex(root)
    if (image) return { kind: 'base', image: this.#pinned(image.ref, this.#imageOf(image.ref).digest) }
    if (local) throw invalid('dockerfile.operation', 'the build context cannot be the root of a step')
    return { kind: 'layer', key: this.#keys[root] ?? '' }
  }

  /** The same image for every step, even if its tag moves during the build. */
  #pinned(ref: string, digest: string): string {
    const name = parseImageRef(ref)
    return imageText(imageText(name) === EMPTY_IMAGE ? name : atDigest(name, digest))
  }

  async #rootOf(number: number): Promise<RootRef> {
    const vertex = this.#vertex(number)
    if (vertex.image) return this.#imageOf(vertex.image.ref).root
    if (!vertex.local) return rootWithLayer(await this.#layer(number))
    this.#context ??= this.#importContext()
    return this.#context
  }

  async #importContext(): Promise<RootRef> {
    const { ownLayers, files } = this.#parts
    const { request, provider } = this.#in
    const { context } = request
    if (context === undefined) throw noContext(request)
    const open = () => files.open(this.#o.who.owner, context)
    const { root, release } = await ownLayers.context(provider, context, open)
    this.#releases.push(release)
    return root
  }

  /** BuildKit writes the owner of a cache as an empty directory that it begins with. */
  #cacheOwners({ exec }: Vertex): Map<ExecMount, CacheOwner> {
    const owners = new Map<ExecMount, CacheOwner>()
    for (const mount of exec?.mounts ?? []) {
      if (mount.kind !== 'cache' || mount.from === NOTHING) continue
      const [first] = this.#vertex(mount.from).file?.actions ?? []
      if (!first?.mkdir) continue
      const { mode, owner } = first.mkdir
      const uid = Number(owner?.user ?? 0)
      owners.set(mount, { uid, gid: Number(owner?.group ?? uid), mode })
    }
    return owners
  }

  #infoOf(number: number): Pick<LayerInfo, 'parent' | 'base' | 'step' | 'project'> {
    const { request } = this.#in
    const vertex = this.#vertex(number)
    const root = vertex.exec?.root ?? vertex.file?.root ?? NOTHING
    const step = stepOf(vertex, this.#names[number] ?? '', {
      selected: this.#selectedOf(number),
      network: request.network,
      timeoutMs: request.timeoutMs,
    })
    return {
      parent: root !== NOTHING && this.#isStep(root) ? this.#keys[root] : undefined,
      base: this.#baseOf(number),
      step,
      project: this.#o.project,
    }
  }

  /** The image at the bottom of a vertex. */
  #baseOf(number: number): LayerInfo['base'] {
    let at = number
    while (at !== NOTHING) {
      const { image, exec, file } = this.#vertex(at)
      if (image)
        return {
          name: 'image',
          image: imageText(parseImageRef(image.ref)),
          digest: this.#imageOf(image.ref).digest,
        }
      at = exec?.root ?? file?.root ?? NOTHING
    }
    return { name: 'image', image: EMPTY_IMAGE }
  }

  #explain(number: number): string {
    if (this.#salt !== undefined) return 'the cache is not used'
    const known = this.#parts.engine.layers.list().filter((one) => mayUseLayer(this.#o.who, one))
    return explainMiss(known, this.#infoOf(number))
  }

  async #keep(sandboxId: SandboxId, number: number, key: string): Promise<Layer> {
    const { engine, clock } = this.#parts
    try {
      await engine.sandboxes.stop(sandboxId, LOCAL)
      const info = this.#infoOf(number)
      const { image } = info.base
      const inherited = image === undefined ? undefined : this.#in.images.get(image)?.env
      return await engine.layers.create(sandboxId, {
        key,
        ...info,
        ...(inherited && { inherited }),
        owners: [this.#o.who.owner],
        usedAt: clock.now(),
      })
    } finally {
      await this.#destroy(sandboxId)
    }
  }

  async #destroy(id: SandboxId): Promise<void> {
    const { engine, log } = this.#parts
    await engine.sandboxes
      .destroy(id, LOCAL)
      .catch((error) => ignore(log, error, `the build sandbox ${id} stays until its time to live ends`))
  }

  /** Vertices that nothing needed, because what is above them was there. */
  async #tellUnneeded(): Promise<void> {
    for (const number of this.#in.graph.vertices.keys())
      if (this.#isStep(number) && !this.#layers.has(number)) await this.#tell(number, 'cached')
  }

  async #tell(
    number: number,
    state: 'cached' | 'started' | 'done',
    o: { readonly why?: string; readonly ms?: number; readonly sizeBytes?: number } = {},
  ): Promise<void> {
    const steps = [...this.#in.graph.vertices.keys()].filter((one) => this.#isStep(one))
    const vertex = this.#vertex(number)
    await this.#o.onEvent({
      kind: 'step',
      name: this.#names[number] ?? '',
      title: titleOf(vertex),
      number: steps.indexOf(number) + 1,
      of: steps.length,
      state,
      ...o,
    })
  }
}

export function checkTag(tag: string, { who }: Pick<DockerfileJob, 'who'>): void {
  const { digest } = parseImageRef(tag)
  if (digest !== undefined)
    throw invalid('image.reference', `${tag} names a digest; an image is stored under a tag`)
  // SECURITY: IM-09. Everybody on the server uses images by these names.
  if (who.isAdmin) return
  throw new AgentPodError({
    code: 'permission_denied',
    reason: 'image.tag',
    message: 'only an admin stores images under a name, because everybody on this server uses them by it',
    hint: 'leave the name out, and use the digest of the build',
  })
}

/** The longest chain of layers, before anything is built. */
function checkDepth({ vertices }: Graph, request: DockerfileRequest): void {
  const depths: number[] = []
  for (const [number, vertex] of vertices.entries()) {
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

function noContext({ name }: DockerfileRequest): AgentPodError {
  return invalid('dockerfile.context', `${name} copies files of the build context, and none was sent`)
}

/** SECURITY: CF-04. Whoever approved the Dockerfile has seen the list. */
function imageRefused({ name }: DockerfileRequest, ref: string): AgentPodError {
  return new AgentPodError({
    code: 'permission_denied',
    reason: 'dockerfile.image_refused',
    message: `${name} uses the image ${ref}, which is not one of those that it may use`,
    hint: 'name it in the list of images of the request',
  })
}

function noConfig(ref: string): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'dockerfile.image',
    message: `the configuration of the image ${ref} is not known`,
    hint: `\`agentpod image pull ${ref}\` gets it again`,
  })
}

function canceled(): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'the build was canceled' })
}
