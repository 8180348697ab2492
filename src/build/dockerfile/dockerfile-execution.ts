/**
 * One build of a Dockerfile: the keys of its vertices, the layers that are missing, and the result. Each
 * vertex runs in a new sandbox on the files below it, and what it writes becomes a layer.
 */
import { AgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import type { Provider, RootRef } from '../../core/provider.ts'
import type { LayerInfo } from '../../core/snapshot.ts'
import type { Engine } from '../../engine/engine.ts'
import { mayUseLayer, rootWithLayer } from '../../engine/snapshots/layers.ts'
import type { Layer } from '../../engine/snapshots/snapshot-registry.ts'
import type { Log } from '../../telemetry/log.ts'
import type { Clock } from '../../util/clock.ts'
import type { KeyedLock } from '../../util/keyed-lock.ts'
import { type Random, randomWord } from '../../util/random.ts'
import { destroyBuildSandbox, keepLayer } from '../build-sandbox.ts'
import { explainMiss } from '../cache-miss.ts'
import type { InputFiles } from '../input-files.ts'
import { baseKey } from '../layer-key.ts'
import { ContextSelections, noContext } from './context-selections.ts'
import type { DockerfileJob, DockerfileRequest, DockerfileResult } from './dockerfile-request.ts'
import type { FrontEnd } from './front-end.ts'
import { CHECKOUT, inputsOf, isStep, NOTHING } from './graph.ts'
import type { OwnLayers } from './own-layers.ts'
import type { ResolvedGraph } from './resolved-graph.ts'
import { cacheName, runVertex, type VertexSource } from './run-vertex.ts'
import { Turns } from './turns.ts'
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

const SAVE = { timeoutMs: 60 * 60_000 }
/** More would only make each other slower. */
const AT_ONCE = 2

export interface ExecutionInputs {
  readonly request: DockerfileRequest
  readonly resolved: ResolvedGraph
  readonly provider: Provider
  readonly lock: KeyedLock
}

/** One build. */
export class DockerfileExecution {
  readonly #parts: DockerfileParts
  readonly #in: ExecutionInputs
  readonly #o: DockerfileJob
  readonly #keys: string[] = []
  readonly #names: readonly string[]
  readonly #layers = new Map<number, Promise<Layer>>()
  readonly #releases: (() => unknown)[] = []
  readonly #stop = new AbortController()
  readonly #salt: string | undefined
  readonly #selections: ContextSelections
  readonly #turns = new Turns(AT_ONCE)
  #context: Promise<RootRef> | undefined
  #program: Promise<RootRef> | undefined

  constructor(parts: DockerfileParts, inputs: ExecutionInputs, o: DockerfileJob) {
    this.#parts = parts
    this.#in = inputs
    this.#o = { ...o, signal: AbortSignal.any([o.signal, this.#stop.signal]) }
    this.#names = namesOf(inputs.resolved.graph.vertices)
    this.#selections = new ContextSelections(inputs.resolved)
    this.#salt = inputs.request.useCache ? undefined : randomWord(parts.random, 16)
  }

  async run(): Promise<DockerfileResult> {
    const { resolved, request } = this.#in
    const { graph } = resolved
    try {
      resolved.checkSecrets(request)
      resolved.checkDepth(request)
      const { signal, who } = this.#o
      await this.#selections.find(this.#parts, request, { owner: who.owner, signal })
      for (const number of graph.vertices.keys()) this.#keys[number] = await this.#keyOf(number)
      for (const key of this.#keys) this.#releases.push(this.#parts.hold(key))
      const last = graph.result
      const layer = last === NOTHING || !this.#in.resolved.isStep(last) ? undefined : await this.#layer(last)
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
    const { request, resolved, provider } = this.#in
    const { graph } = resolved
    const config = Buffer.from(graph.config, 'base64').toString('utf8')
    const root = layer ? rootWithLayer(layer) : this.#in.resolved.rootOfImage(graph.result)
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

  async #keyOf(number: number): Promise<string> {
    const vertex = this.#in.resolved.vertex(number)
    const { provider, request } = this.#in
    if (vertex.local) return `context ${request.context}`
    if (vertex.image) {
      const { digest, root } = this.#in.resolved.imageOf(vertex.image.ref)
      return baseKey({ name: 'image', digest }, provider, root, this.#parts.arch)
    }
    const inputs = {
      key: (one: number) => this.#keys[one] ?? '',
      selected: this.#selections.of(number),
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
      await destroyBuildSandbox(this.#parts, sandboxId)
      this.#layers.set(number, Promise.resolve(engine.layers.addOwner(there, this.#o.who.owner)))
    } else {
      const kept = this.#keep(sandboxId, number, key)
      this.#layers.set(number, kept)
      await kept
    }
    await this.#tell(number, 'done', { ms: Math.round(performance.now() - startedAt) })
    return key
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
    const needed = inputsOf(this.#in.resolved.vertex(number)).filter((one) => this.#in.resolved.isStep(one))
    await Promise.all(needed.map((one) => this.#layer(one)))
    return await this.#turns.run(async () => {
      if (this.#o.signal.aborted) throw canceled()
      await this.#tell(number, 'started', { why: this.#explain(number) })
      const startedAt = performance.now()
      const { sandboxId } = await this.#withCaches(number, () => this.#run(number))
      const layer = await this.#keep(sandboxId, number, key)
      const ms = Math.round(performance.now() - startedAt)
      await this.#tell(number, 'done', { ms, sizeBytes: layer.sizeBytes })
      return layer
    })
  }

  /** Caches that are not shared are used by one command at a time. */
  #withCaches<T>(number: number, work: () => Promise<T>): Promise<T> {
    const mounts = this.#in.resolved.vertex(number).exec?.mounts ?? []
    const names = mounts
      .filter(({ kind, sharing }) => kind === 'cache' && sharing !== 'shared')
      .map((mount) => cacheName(this.#o.who.owner, mount))
    const locked = [...new Set(names)]
      .sort()
      .reduce<() => Promise<T>>((inner, name) => () => this.#in.lock.run(name, inner), work)
    return locked()
  }

  async #run(number: number): Promise<{ readonly sandboxId: SandboxId; readonly printed: string }> {
    const vertex = this.#in.resolved.vertex(number)
    const { request } = this.#in
    const root = this.#in.resolved.rootOf(number)
    const sources = new Map<number, VertexSource>()
    for (const one of inputsOf(vertex)) {
      if (one === root && !this.#in.resolved.reads(vertex, one)) continue
      const { git, local } = this.#in.resolved.vertex(one)
      const from = git && CHECKOUT
      sources.set(one, { root: await this.#rootOf(one), from, isRoot: !git && !local })
    }
    this.#program ??= this.#parts.ownLayers.program(this.#in.provider)
    return runVertex(
      this.#parts,
      {
        vertex,
        name: this.#names[number] ?? '',
        below: this.#in.resolved.below(root, this.#keys),
        sources,
        program: await this.#program,
        cacheOwners: this.#in.resolved.cacheOwners(vertex),
        request,
        network: request.network,
      },
      this.#o,
    )
  }

  async #rootOf(number: number): Promise<RootRef> {
    const vertex = this.#in.resolved.vertex(number)
    if (vertex.image) return this.#in.resolved.imageOf(vertex.image.ref).root
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

  #infoOf(number: number): Pick<LayerInfo, 'parent' | 'base' | 'step' | 'project'> {
    const { request } = this.#in
    const vertex = this.#in.resolved.vertex(number)
    const root = this.#in.resolved.rootOf(number)
    const step = stepOf(vertex, this.#names[number] ?? '', {
      selected: this.#selections.of(number),
      network: request.network,
      timeoutMs: request.timeoutMs,
    })
    return {
      parent: root !== NOTHING && this.#in.resolved.isStep(root) ? this.#keys[root] : undefined,
      base: this.#in.resolved.baseOf(number),
      step,
      project: this.#o.project,
    }
  }

  #explain(number: number): string {
    if (this.#salt !== undefined) return 'the cache is not used'
    const known = this.#parts.engine.layers.list().filter((one) => mayUseLayer(this.#o.who, one))
    return explainMiss(known, this.#infoOf(number))
  }

  #keep(sandboxId: SandboxId, number: number, key: string): Promise<Layer> {
    const info = this.#infoOf(number)
    const inherited = this.#in.resolved.variablesOf(info.base.image)
    return keepLayer(this.#parts, sandboxId, {
      key,
      ...info,
      ...(inherited && { inherited }),
      owners: [this.#o.who.owner],
    })
  }

  /** Vertices that nothing needed, because what is above them was there. */
  async #tellUnneeded(): Promise<void> {
    for (const number of this.#in.resolved.graph.vertices.keys())
      if (this.#in.resolved.isStep(number) && !this.#layers.has(number)) await this.#tell(number, 'cached')
  }

  async #tell(
    number: number,
    state: 'cached' | 'started' | 'done',
    o: { readonly why?: string; readonly ms?: number; readonly sizeBytes?: number } = {},
  ): Promise<void> {
    const steps = [...this.#in.resolved.graph.vertices.keys()].filter((one) => this.#in.resolved.isStep(one))
    const vertex = this.#in.resolved.vertex(number)
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

function canceled(): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'the build was canceled' })
}
