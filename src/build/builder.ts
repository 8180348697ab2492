/**
 * Builds a recipe into layers. Each step runs in a new sandbox on the layers below, with its own network
 * policy; the files it writes become the next layer.
 */
import type { Readable } from 'node:stream'
import { AgentPodError, invalid } from '../core/error.ts'
import { LOCAL, type Principal } from '../core/principal.ts'
import { MOST_STEPS, type Recipe, type Step } from '../core/recipe.ts'
import type { Engine } from '../engine/engine.ts'
import { LAYER_OWNER, mayUseLayer } from '../engine/snapshots/layers.ts'
import type { Layer } from '../engine/snapshots/snapshot-registry.ts'
import type { Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import { KeyedLock } from '../util/keyed-lock.ts'
import { ReferenceCounts } from '../util/reference-counts.ts'
import type { BuildJob } from './build-request.ts'
import { BUILD_LABEL, destroyBuildSandbox, keepLayer } from './build-sandbox.ts'
import { explainMiss } from './cache-miss.ts'
import type { InputFiles } from './input-files.ts'
import { baseKey, layerKeys } from './layer-key.ts'
import { runStep } from './step.ts'

export interface BuilderParts {
  readonly engine: Engine
  readonly files: InputFiles
  readonly arch: string
  readonly clock: Clock
  readonly log: Log
}

export type BuildResult =
  | {
      readonly kind: 'built'
      readonly digest: string | undefined
      /** The digest of the base's layer, if it has one. */
      readonly base: string | undefined
      /** For the base `image`: the digest of the image that was used. */
      readonly imageDigest?: string | undefined
      readonly sizeBytes: number
    }
  /** These archives have to be uploaded first. */
  | { readonly kind: 'needs'; readonly files: readonly string[] }

/** One step of a build. */
interface Job {
  readonly recipe: Recipe
  readonly step: Step
  readonly at: number
  readonly key: string
  readonly parent: string | undefined
  /** Those of the whole recipe. */
  readonly keys: readonly string[]
  /** Variables that the base sets. */
  readonly inherited: Readonly<Record<string, string>> | undefined
  readonly isForced: boolean
}

export class Builder {
  readonly #parts: BuilderParts
  readonly #lock = new KeyedLock()
  /** Layers that running builds use or make. They must not be removed. */
  readonly #layers = new ReferenceCounts()
  /** Archives that running builds may need. */
  readonly #archives = new ReferenceCounts()

  constructor(parts: BuilderParts) {
    this.#parts = parts
  }

  /** Destroys build sandboxes that an earlier server process left behind. */
  async open(): Promise<void> {
    const { engine, files } = this.#parts
    files.sweep(true)
    // Anyone can set labels, so the owner is checked too.
    const left = engine.sandboxes
      .list({ labels: { [BUILD_LABEL]: 'step' }, all: false }, LOCAL)
      .filter(({ owner }) => owner === LAYER_OWNER)
    for (const { id } of left) await destroyBuildSandbox(this.#parts, id)
  }

  /** Keeps a layer from being removed while another kind of build uses or makes it. */
  hold(key: string): () => boolean {
    return this.#layers.hold(key)
  }

  /** A recipe without steps has no digest: it is only its base. */
  async build(asked: Recipe, o: BuildJob): Promise<BuildResult> {
    const again = checkRecipe(asked, o.again)
    const { engine, arch } = this.#parts
    const tell = (text: string): void => void o.onEvent({ kind: 'progress', text })
    const wish = { ...asked.base, isAnonymous: !o.who.isAdmin }
    const { root, digest, variables, provider } = await engine.providers.prepareBase(wish, tell, {
      provider: o.provider,
      owner: o.who.owner,
    })
    // Every step uses the same image, even if its tag moves during the build.
    const recipe = digest === undefined ? asked : { ...asked, base: { ...asked.base, digest } }
    const keys = layerKeys(recipe, baseKey(recipe.base, provider, root, arch))
    const releases = keys.map((key) => this.#layers.hold(key))
    try {
      const needed = this.#missing(recipe, keys.slice(0, again), o)
      if (needed.length > 0) return { kind: 'needs', files: needed }
      const sizeBytes = await this.#withArchives(recipe, o, () =>
        this.#all(recipe, { keys, again, inherited: variables }, o),
      )
      return {
        kind: 'built',
        digest: keys.at(-1),
        base: provider.layers?.of(root)[0],
        ...(digest !== undefined && { imageDigest: digest }),
        sizeBytes,
      }
    } finally {
      for (const release of releases) release()
    }
  }

  async #all(
    recipe: Recipe,
    how: Pick<Job, 'keys' | 'inherited'> & { readonly again: number },
    o: BuildJob,
  ): Promise<number> {
    const { keys, inherited, again } = how
    let sizeBytes = 0
    for (const [at, step] of recipe.steps.entries()) {
      const key = keys[at] ?? ''
      const job = { recipe, step, at, key, parent: keys[at - 1], keys, inherited, isForced: at >= again }
      // Two builds of the same layer run one after the other; the second finds the layer in the cache.
      const layer = await this.#lock.run(key, () => this.#step(job, o))
      sizeBytes += layer.sizeBytes
    }
    return sizeBytes
  }

  /**
   * Archives that must be uploaded.
   *
   * SECURITY: a caller can use a layer that others built from files only by uploading the same files.
   */
  #missing({ steps }: Recipe, found: readonly string[], { who }: BuildJob): string[] {
    const { engine, files } = this.#parts
    const needed = steps.flatMap(({ files: wanted }, at) => {
      if (!wanted || files.has(who.owner, wanted.digest)) return []
      const layer = engine.layers.get(found[at] ?? '')
      return layer && mayUseLayer(who, layer) ? [] : [wanted.digest]
    })
    return [...new Set(needed)]
  }

  /** Removes the archives after the build, unless another build needs them. */
  async #withArchives<T>(
    { steps }: Recipe,
    { who: { owner } }: BuildJob,
    work: () => Promise<T>,
  ): Promise<T> {
    const digests = new Set(steps.flatMap(({ files }) => files?.digest ?? []))
    const held = [...digests].map((digest) => [digest, this.#archives.hold(`${owner} ${digest}`)] as const)
    try {
      const result = await work()
      for (const [digest, release] of held) if (release()) this.#parts.files.remove(owner, digest)
      return result
    } finally {
      for (const [, release] of held) release()
    }
  }

  async #step(job: Job, o: BuildJob): Promise<Layer> {
    const { engine, files, log } = this.#parts
    const { recipe, step, at, key, parent } = job
    const { name, title } = step
    const { owner } = o.who
    const place = { kind: 'step' as const, name, title, number: at + 1, of: recipe.steps.length }
    if (o.signal.aborted) throw canceled()
    const there = engine.layers.get(key)
    if (there && !job.isForced) {
      const shared = engine.layers.addOwner(there, owner)
      await o.onEvent({ ...place, state: 'cached' })
      return shared
    }
    if (step.files && !files.has(owner, step.files.digest)) throw filesGone()
    const wanted = { parent, base: recipe.base, step, project: o.project }
    const known = engine.layers.list().filter((layer) => mayUseLayer(o.who, layer))
    const why = job.isForced ? 'a rebuild was requested' : explainMiss(known, wanted)
    await o.onEvent({ ...place, state: 'started', why })
    if (there) await this.#discard(there, o.who, job.keys)
    const startedAt = performance.now()
    const archive = (): Readable | undefined => step.files && files.open(owner, step.files.digest)
    const sandboxId = await runStep(engine, log, { base: recipe.base, step, parent, archive }, o)
    const layer = await keepLayer(this.#parts, sandboxId, {
      key,
      ...wanted,
      step: remembered(step),
      owners: [owner],
      ...(job.inherited && { inherited: job.inherited }),
    })
    await o.onEvent({
      ...place,
      state: 'done',
      ms: Math.round(performance.now() - startedAt),
      sizeBytes: layer.sizeBytes,
    })
    return layer
  }

  /** Removes a layer that is rebuilt, and all layers on it: either all of them or none. */
  async #discard(layer: Layer, who: Principal, own: readonly string[]): Promise<void> {
    const { engine } = this.#parts
    const inUse = engine.layers.inUse()
    const doomed = above(layer, engine.layers.list())
    const shared = doomed.find((one) => !who.isAdmin && one.layer.owners.some((owner) => owner !== who.owner))
    if (shared)
      throw new AgentPodError({
        code: 'permission_denied',
        reason: 'layer.shared',
        message: `the layer of "${shared.layer.step.title}" is also used by others`,
        hint: 'an admin can rebuild it',
      })
    const used = doomed.find((one) => inUse.has(one.id) || this.#isHeld(one, own))
    if (used) throw inUseBy(used, engine.layers.dependents(used))
    for (const one of doomed.reverse())
      if (!(await engine.layers.remove(one))) throw inUseBy(one, engine.layers.dependents(one))
  }

  /** Whether another build uses the layer or is making it. */
  #isHeld({ layer: { key } }: Layer, own: readonly string[]): boolean {
    return this.#layers.of(key) > own.filter((one) => one === key).length
  }

  /** Removes unused layers, least recently used first, until the rest takes at most `keepBytes`. */
  async prune(o: { readonly keepBytes: number; readonly isDry: boolean }): Promise<Pruned> {
    const { engine } = this.#parts
    const all = engine.layers.list()
    let keptBytes = all.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
    const removed: Layer[] = []
    const looked = new Set<string>()
    while (keptBytes > o.keepBytes) {
      const inUse = engine.layers.inUse()
      const left = all.filter((one) => !removed.includes(one))
      const parents = new Set(left.map(({ layer }) => layer.parent))
      const [oldest] = left
        .filter(({ layer: { key } }) => !looked.has(key) && !parents.has(key) && this.#layers.of(key) === 0)
        .filter(({ id }) => !inUse.has(id))
        .toSorted((a, b) => a.layer.usedAt - b.layer.usedAt || b.createdAt - a.createdAt)
      if (!oldest) break
      looked.add(oldest.layer.key)
      if (!o.isDry && !(await engine.layers.remove(oldest))) continue
      removed.push(oldest)
      keptBytes -= oldest.sizeBytes
    }
    return {
      removed: removed.map(({ layer, sizeBytes }) => ({
        key: layer.key,
        title: layer.step.title,
        sizeBytes,
      })),
      keptBytes,
    }
  }
}

export interface Pruned {
  readonly removed: readonly { readonly key: string; readonly title: string; readonly sizeBytes: number }[]
  readonly keptBytes: number
}

const LARGEST_STEP = 256 * 1024
const LONGEST_ENTRIES = 64 * 1024

/**
 * SECURITY: CP-16. Layers stay in memory while they exist. File lists that only help to explain a cache miss
 * are dropped when they are long.
 */
function remembered(step: Step): Step {
  const { files } = step
  if (!files || JSON.stringify(files.entries).length <= LONGEST_ENTRIES) return step
  return { ...step, files: { ...files, entries: {} } }
}

function isLarge({ files: _, ...step }: Step): boolean {
  return JSON.stringify(step).length > LARGEST_STEP
}

/** A layer and all layers on top of it, lowest first. */
function above(layer: Layer, all: readonly Layer[]): Layer[] {
  const next = all.filter((one) => one.layer.parent === layer.layer.key)
  return [layer, ...next.flatMap((one) => above(one, all))]
}

/** The index of the first step to rebuild; the number of steps if none is. */
function checkRecipe({ steps }: Recipe, again: string | undefined): number {
  const names = new Set(steps.map(({ name }) => name))
  if (steps.length > MOST_STEPS || names.size !== steps.length)
    throw invalid('recipe.steps', `a recipe has at most ${MOST_STEPS} steps, each with a unique name`)
  const large = steps.find(isLarge)
  if (large) throw invalid('recipe.large', `the step ${large.name} is larger than ${LARGEST_STEP} bytes`)
  if (again === undefined) return steps.length
  if (names.has(again)) return steps.findIndex(({ name }) => name === again)
  throw invalid(
    'build.again',
    `unknown step to rebuild: ${again}`,
    names.size > 0 ? `the steps are: ${[...names].join(', ')}` : undefined,
  )
}

function inUseBy(
  { layer }: Layer,
  { sandboxes, snapshots }: ReturnType<Engine['layers']['dependents']>,
): AgentPodError {
  const users = [
    ...sandboxes.map((name) => `the sandbox ${name}`),
    ...snapshots.map((name) => `the snapshot ${name}`),
  ]
  const shown = users.slice(0, 5).join(', ')
  const removed = [
    ...(sandboxes.length > 0 ? [`\`agentpod destroy ${sandboxes.slice(0, 5).join(' ')}\``] : []),
    ...(snapshots.length > 0 ? [`\`agentpod snapshot rm ${snapshots.slice(0, 5).join(' ')}\``] : []),
  ]
  return new AgentPodError({
    code: 'conflict',
    reason: 'layer.used',
    message: `the layer of "${layer.step.title}" is in use: ${users.length > 0 ? shown : 'another build is running'}${users.length > 5 ? ` and ${users.length - 5} more` : ''}`,
    hint: removed.length > 0 ? `${removed.join(' and ')} first` : 'try again when it has finished',
  })
}

function filesGone(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'build.files',
    message: 'the uploaded files for the build have been removed',
    hint: 'try again',
  })
}

function canceled(): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'the build was canceled' })
}
