/** Recipe to layers. Each step runs in a sandbox of its own on the layers below, under its own network policy; what it wrote becomes the next layer. */
import type { Readable } from 'node:stream'
import { AgentPodError, invalid } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import type { Principal } from '../core/principal.ts'
import { MOST_STEPS, type Recipe, type Step } from '../core/recipe.ts'
import type { LayerInfo } from '../core/snapshot.ts'
import type { Layer } from '../engine/album.ts'
import type { Engine } from '../engine/engine.ts'
import { LAYER_OWNER, mayUse } from '../engine/layers.ts'
import { ignore, type Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import { Counts } from '../util/counts.ts'
import { failpoint } from '../util/failpoint.ts'
import { KeyedLock } from '../util/keyed-lock.ts'
import type { BuildOptions } from './build-options.ts'
import type { InputFiles } from './input-files.ts'
import { baseKey, layerKeys } from './key.ts'
import { explainMiss } from './miss.ts'
import { BUILD_LABEL, runStep } from './step.ts'

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
      /** The digest of the base's own layer, where it has one. */
      readonly base: string | undefined
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
  readonly isForced: boolean
}

export class Builder {
  readonly #parts: BuilderParts
  readonly #lock = new KeyedLock()
  /** Layers that builds under way have found or are making: nobody removes them. */
  readonly #layers = new Counts()
  /** Archives that builds under way may need. */
  readonly #archives = new Counts()

  constructor(parts: BuilderParts) {
    this.#parts = parts
  }

  /** Ends what builds of an earlier life left running. */
  async open(): Promise<void> {
    const { engine, files } = this.#parts
    files.sweep(true)
    // Labels are anybody's to give; the owner is not.
    const left = engine
      .list({ labels: { [BUILD_LABEL]: 'step' }, all: false })
      .filter(({ owner }) => owner === LAYER_OWNER)
    for (const { id } of left) await this.#destroy(id)
  }

  /** A recipe without steps has no digest: its base is all there is to it. */
  async build(asked: Recipe, o: BuildOptions): Promise<BuildResult> {
    const again = checkRecipe(asked, o.again)
    const { engine, arch } = this.#parts
    const tell = (text: string): void => void o.onEvent({ kind: 'progress', text })
    const { root, digest, provider } = await engine.prepare(asked.base, tell, o.provider)
    // Every step stands on the same image, whatever its tag comes to mean meanwhile.
    const recipe = digest === undefined ? asked : { ...asked, base: { ...asked.base, digest } }
    const keys = layerKeys(recipe, baseKey(recipe.base, provider, root, arch))
    const releases = keys.map((key) => this.#layers.hold(key))
    try {
      const needed = this.#missing(recipe, keys.slice(0, again), o)
      if (needed.length > 0) return { kind: 'needs', files: needed }
      const sizeBytes = await this.#withArchives(recipe, o, () => this.#all(recipe, keys, again, o))
      return {
        kind: 'built',
        digest: keys.at(-1),
        base: provider.layers?.of(root)[0],
        sizeBytes,
      }
    } finally {
      for (const release of releases) release()
    }
  }

  async #all(recipe: Recipe, keys: readonly string[], again: number, o: BuildOptions): Promise<number> {
    let sizeBytes = 0
    for (const [at, step] of recipe.steps.entries()) {
      const key = keys[at] ?? ''
      const job = { recipe, step, at, key, parent: keys[at - 1], keys, isForced: at >= again }
      // Two builds of one layer are one: the second finds what the first has made.
      const layer = await this.#lock.run(key, () => this.#step(job, o))
      sizeBytes += layer.sizeBytes
    }
    return sizeBytes
  }

  /**
   * Archives that have to be there. SECURITY: what others have built of files is for those who have the files as well, and who has them can
   * send them.
   */
  #missing({ steps }: Recipe, found: readonly string[], { who }: BuildOptions): string[] {
    const { engine, files } = this.#parts
    const needed = steps.flatMap(({ files: wanted }, at) => {
      if (!wanted || files.has(who.owner, wanted.digest)) return []
      const layer = engine.layer(found[at] ?? '')
      return layer && mayUse(who, layer) ? [] : [wanted.digest]
    })
    return [...new Set(needed)]
  }

  /** When everything is built, archives that nobody else needs go. */
  async #withArchives<T>(
    { steps }: Recipe,
    { who: { owner } }: BuildOptions,
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

  async #step(job: Job, o: BuildOptions): Promise<Layer> {
    const { engine, files, log } = this.#parts
    const { recipe, step, at, key, parent } = job
    const { name, title } = step
    const { owner } = o.who
    const place = { kind: 'step' as const, name, title, number: at + 1, of: recipe.steps.length }
    if (o.signal.aborted) throw canceled()
    const there = engine.layer(key)
    if (there && !job.isForced) {
      const shared = engine.shareLayer(there, owner)
      await o.onEvent({ ...place, state: 'cached' })
      return shared
    }
    if (step.files && !files.has(owner, step.files.digest)) throw filesGone()
    const wanted = { parent, base: recipe.base, step, project: o.project }
    const known = engine.layers().filter((layer) => mayUse(o.who, layer))
    const why = job.isForced ? 'it was asked for' : explainMiss(known, wanted)
    await o.onEvent({ ...place, state: 'started', why })
    if (there) await this.#discard(there, o.who, job.keys)
    const startedAt = performance.now()
    const archive = (): Readable | undefined => step.files && files.open(owner, step.files.digest)
    const sandboxId = await runStep(engine, log, { base: recipe.base, step, parent, archive }, o)
    const layer = await this.#keep(sandboxId, { key, ...wanted, step: remembered(step), owners: [owner] })
    await o.onEvent({
      ...place,
      state: 'done',
      ms: Math.round(performance.now() - startedAt),
      sizeBytes: layer.sizeBytes,
    })
    return layer
  }

  async #keep(sandboxId: SandboxId, info: Omit<LayerInfo, 'usedAt'>): Promise<Layer> {
    const { engine, clock } = this.#parts
    try {
      await engine.stop(sandboxId)
      failpoint('build.ran')
      const layer = await engine.keepLayer(sandboxId, { ...info, usedAt: clock.now() })
      failpoint('build.kept')
      return layer
    } finally {
      await this.#destroy(sandboxId)
    }
  }

  async #destroy(id: SandboxId): Promise<void> {
    const { engine, log } = this.#parts
    await engine.destroy(id).catch((error) => ignore(log, error, `the build sandbox ${id} ends at its time`))
  }

  /** What is built anew must not be found before. All of it goes or none. */
  async #discard(layer: Layer, who: Principal, own: readonly string[]): Promise<void> {
    const { engine } = this.#parts
    const inUse = engine.layersInUse()
    const doomed = above(layer, engine.layers())
    const shared = doomed.find((one) => !who.isAdmin && one.layer.owners.some((owner) => owner !== who.owner))
    if (shared)
      throw new AgentPodError({
        code: 'permission_denied',
        reason: 'layer.shared',
        message: `what "${shared.layer.step.title}" built is used by others, too`,
        hint: 'an admin may have it built again',
      })
    const used = doomed.find((one) => inUse.has(one.id) || this.#isHeld(one, own))
    if (used) throw inUseBy(used, engine.standingOn(used))
    for (const one of doomed.reverse())
      if (!(await engine.removeLayer(one))) throw inUseBy(one, engine.standingOn(one))
  }

  /** Whether another build than the one of these layers has found it, or is making it. */
  #isHeld({ layer: { key } }: Layer, own: readonly string[]): boolean {
    return this.#layers.of(key) > own.filter((one) => one === key).length
  }

  /** Removes layers nobody stands on, those not used for longest first, until what is left takes at most `keepBytes`. */
  async prune(o: { readonly keepBytes: number; readonly isDry: boolean }): Promise<Pruned> {
    const { engine } = this.#parts
    const all = engine.layers()
    let keptBytes = all.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
    const removed: Layer[] = []
    const looked = new Set<string>()
    while (keptBytes > o.keepBytes) {
      const inUse = engine.layersInUse()
      const left = all.filter((one) => !removed.includes(one))
      const parents = new Set(left.map(({ layer }) => layer.parent))
      const [oldest] = left
        .filter(({ layer: { key } }) => !looked.has(key) && !parents.has(key) && this.#layers.of(key) === 0)
        .filter(({ id }) => !inUse.has(id))
        .toSorted((a, b) => a.layer.usedAt - b.layer.usedAt || b.createdAt - a.createdAt)
      if (!oldest) break
      looked.add(oldest.layer.key)
      if (!o.isDry && !(await engine.removeLayer(oldest))) continue
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

/** SECURITY: CP-16. Layers are held in memory for as long as they are there. What only helps to say what changed is let go of first. */
function remembered(step: Step): Step {
  const { files } = step
  if (!files || JSON.stringify(files.entries).length <= LONGEST_ENTRIES) return step
  return { ...step, files: { ...files, entries: {} } }
}

function isLarge({ files: _, ...step }: Step): boolean {
  return JSON.stringify(step).length > LARGEST_STEP
}

/** A layer and all that stand on it, lowest first. */
function above(layer: Layer, all: readonly Layer[]): Layer[] {
  const next = all.filter((one) => one.layer.parent === layer.layer.key)
  return [layer, ...next.flatMap((one) => above(one, all))]
}

/** Answers from which step on everything is built again; beyond the last where nothing is. */
function checkRecipe({ steps }: Recipe, again: string | undefined): number {
  const names = new Set(steps.map(({ name }) => name))
  if (steps.length > MOST_STEPS || names.size !== steps.length)
    throw invalid('recipe.steps', `a recipe has at most ${MOST_STEPS} steps, each with a name of its own`)
  const large = steps.find(isLarge)
  if (large)
    throw invalid('recipe.large', `the step ${large.name} has more than ${LARGEST_STEP} bytes to say`)
  if (again === undefined) return steps.length
  if (names.has(again)) return steps.findIndex(({ name }) => name === again)
  throw invalid(
    'build.again',
    `there is no step ${again} to build again`,
    names.size > 0 ? `the steps are ${[...names].join(', ')}` : undefined,
  )
}

function inUseBy(
  { layer }: Layer,
  { sandboxes, snapshots }: ReturnType<Engine['standingOn']>,
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
    message: `what "${layer.step.title}" built is in use: ${users.length > 0 ? shown : 'another build is under way'}${users.length > 5 ? ` and ${users.length - 5} more` : ''}`,
    hint: removed.length > 0 ? `${removed.join(' and ')} first` : 'try again when it has ended',
  })
}

function filesGone(): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'build.files',
    message: 'files for the build were sent and are gone again',
    hint: 'try again',
  })
}

function canceled(): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'the build was canceled' })
}
