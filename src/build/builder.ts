/** Recipe to layers. Each step runs in a sandbox of its own on the layers below, under its own network policy; what it wrote becomes the next layer. */
import type { Readable } from 'node:stream'
import { AgentPodError } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import { MOST_STEPS, type Recipe, type RecipeBase, type Step } from '../core/recipe.ts'
import type { Engine } from '../engine/engine.ts'
import type { Layer } from '../engine/layers.ts'
import { ignore, type Log } from '../telemetry/log.ts'
import type { Clock } from '../util/clock.ts'
import { failpoint } from '../util/failpoint.ts'
import { KeyedLock } from '../util/keyed-lock.ts'
import type { BuildOptions } from './build-options.ts'
import type { InputFiles } from './input-files.ts'
import { baseKey, layerKeys } from './key.ts'
import { explainMiss } from './miss.ts'
import { BUILD_LABEL, runStep, type StepResult } from './step.ts'

export interface BuilderParts {
  readonly engine: Engine
  readonly files: InputFiles
  readonly arch: string
  readonly clock: Clock
  readonly log: Log
}

export type BuildResult =
  | { readonly kind: 'built'; readonly digest: string | undefined; readonly sizeBytes: number }
  /** These archives have to be uploaded first. */
  | { readonly kind: 'needs'; readonly files: readonly string[] }

export class Builder {
  readonly #parts: BuilderParts
  readonly #lock = new KeyedLock()

  constructor(parts: BuilderParts) {
    this.#parts = parts
  }

  /** Ends what builds of an earlier life left running. */
  async open(): Promise<void> {
    const { engine, files, log } = this.#parts
    files.sweep()
    for (const { id } of engine.list({ labels: { [BUILD_LABEL]: 'step' }, all: false }))
      await engine
        .destroy(id)
        .catch((error) => ignore(log, error, `the build sandbox ${id} ends at its time`))
  }

  /** A recipe without steps has no digest: its base is all there is to it. */
  async build(recipe: Recipe, o: BuildOptions): Promise<BuildResult> {
    checkRecipe(recipe)
    const { engine, arch, files } = this.#parts
    const root = await engine.prepare(recipe.base, (text) => o.onEvent({ kind: 'progress', text }))
    const keys = layerKeys(recipe, baseKey(recipe.base, root, arch))
    const again = recipe.steps.findIndex(({ name }) => name === o.again)
    const isThere = (at: number): boolean =>
      engine.layer(keys[at] ?? '') !== undefined && (again < 0 || at < again)
    const needed = recipe.steps.flatMap((step, at) =>
      step.files && !isThere(at) && !files.has(step.files.digest) ? [step.files.digest] : [],
    )
    if (needed.length > 0) return { kind: 'needs', files: [...new Set(needed)] }
    let sizeBytes = 0
    for (const [at, step] of recipe.steps.entries()) {
      const key = keys[at] ?? ''
      // Two builds of one layer are one: the second finds what the first has made.
      const layer = await this.#lock.run(key, () =>
        this.#step({ recipe, step, at, key, parent: keys[at - 1], isForced: again >= 0 && at >= again }, o),
      )
      sizeBytes += layer.sizeBytes
    }
    return { kind: 'built', digest: keys.at(-1), sizeBytes }
  }

  async #step(
    job: {
      readonly recipe: Recipe
      readonly step: Step
      readonly at: number
      readonly key: string
      readonly parent: string | undefined
      readonly isForced: boolean
    },
    o: BuildOptions,
  ): Promise<Layer> {
    const { engine, clock } = this.#parts
    const { recipe, step, at, key, parent } = job
    const { name, title } = step
    const place = { kind: 'step' as const, name, title, number: at + 1, of: recipe.steps.length }
    const there = engine.layer(key)
    if (there && !job.isForced) {
      o.onEvent({ ...place, state: 'cached' })
      return there
    }
    const wanted = { parent, base: recipe.base, step, project: o.project }
    o.onEvent({
      ...place,
      state: 'started',
      why: there ? 'it was asked for' : explainMiss(engine.layers(), wanted),
    })
    if (there) await this.#discard(there)
    const startedAt = performance.now()
    const result = await this.#run(recipe.base, step, parent, o)
    const layer = await this.#keep(result.sandboxId, { key, ...wanted, usedAt: clock.now() })
    o.onEvent({
      ...place,
      state: 'done',
      ms: Math.round(performance.now() - startedAt),
      sizeBytes: layer.sizeBytes,
    })
    return layer
  }

  async #run(base: RecipeBase, step: Step, parent: string | undefined, o: BuildOptions): Promise<StepResult> {
    const { engine, files } = this.#parts
    const archive = (): Readable | undefined => (step.files ? files.open(step.files.digest) : undefined)
    return runStep(engine, { base, step, parent, archive }, o)
  }

  async #keep(sandboxId: SandboxId, info: Parameters<Engine['keepLayer']>[1]): Promise<Layer> {
    const { engine, files } = this.#parts
    try {
      await engine.stop(sandboxId)
      failpoint('build.ran')
      const layer = await engine.keepLayer(sandboxId, info)
      failpoint('build.kept')
      if (info.step.files) files.remove(info.step.files.digest)
      return layer
    } finally {
      await engine
        .destroy(sandboxId)
        .catch((error) => ignore(this.#parts.log, error, `the build sandbox ${sandboxId} ends at its time`))
    }
  }

  /** What is built anew must not be found before. */
  async #discard(layer: Layer): Promise<void> {
    const { engine } = this.#parts
    const above = engine.layers().filter(({ layer: { parent } }) => parent === layer.layer.key)
    for (const one of above) await this.#discard(one)
    if (await engine.removeLayer(layer)) return
    throw new AgentPodError({
      code: 'conflict',
      reason: 'layer.used',
      message: `sandboxes stand on what "${layer.layer.step.title}" built`,
      hint: '`agentpod ls` shows them; destroy them first',
    })
  }

  /** Removes layers nobody stands on, those not used for longest first, until what is left takes at most `keepBytes`. */
  async prune(o: { readonly keepBytes: number; readonly isDry: boolean }): Promise<Pruned> {
    const { engine } = this.#parts
    const all = engine.layers()
    let left = all.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
    const removed: Layer[] = []
    const gone = new Set<string>()
    while (left > o.keepBytes) {
      const inUse = o.isDry ? undefined : engine.layersInUse()
      const parents = new Set(
        all.filter(({ layer }) => !gone.has(layer.key)).map(({ layer }) => layer.parent),
      )
      const oldest = all
        .filter(({ id, layer }) => !gone.has(layer.key) && !parents.has(layer.key) && !inUse?.has(id))
        .toSorted((a, b) => a.layer.usedAt - b.layer.usedAt)
        .at(0)
      if (!oldest) break
      gone.add(oldest.layer.key)
      if (!o.isDry && !(await engine.removeLayer(oldest))) continue
      removed.push(oldest)
      left -= oldest.sizeBytes
    }
    return {
      removed: removed.map(({ layer, sizeBytes }) => ({
        key: layer.key,
        title: layer.step.title,
        sizeBytes,
      })),
      keptBytes: left,
    }
  }
}

export interface Pruned {
  readonly removed: readonly { readonly key: string; readonly title: string; readonly sizeBytes: number }[]
  readonly keptBytes: number
}

function checkRecipe({ steps }: Recipe): void {
  const names = new Set(steps.map(({ name }) => name))
  if (steps.length <= MOST_STEPS && names.size === steps.length) return
  throw new AgentPodError({
    code: 'invalid_argument',
    reason: 'recipe.steps',
    message: `a recipe has at most ${MOST_STEPS} steps, each with a name of its own`,
  })
}
