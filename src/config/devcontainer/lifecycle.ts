/** Lifecycle commands as data: what runs, where it comes from, and what a client waits for. */
import {
  CONTAINER_STAGES,
  type ContainerStage,
  type LifecycleStage,
  type LifecycleValue,
} from './properties.ts'

/** What one entry runs: a line for `/bin/sh -c`, or a program with its arguments. */
export type LifecycleRun = { readonly shell: string } | { readonly program: readonly [string, ...string[]] }

/** A step has one run without a name, or named runs that start at the same time and all end. */
export interface LifecycleStep {
  /** `devcontainer.json`, or the reference of the Feature as it is in the file. */
  readonly origin: string
  readonly runs: readonly { readonly name?: string | undefined; readonly run: LifecycleRun }[]
}

/** Steps of a stage run one after another; the first that fails ends the stage and all later ones. */
export type LifecyclePlan = Readonly<Record<ContainerStage, readonly LifecycleStep[]>>

export const DEFAULT_WAIT_FOR: LifecycleStage = 'updateContentCommand'
export const OWN_ORIGIN = 'devcontainer.json'

/** Metadata of the image first, then Features in the order of installation, then devcontainer.json. */
export function lifecyclePlan(
  entries: readonly ({ readonly id?: string | undefined } & Partial<
    Record<ContainerStage, LifecycleValue | undefined>
  >)[],
): LifecyclePlan {
  const steps = (stage: ContainerStage): LifecycleStep[] =>
    entries.flatMap((entry) => {
      const step = lifecycleStep(entry.id ?? OWN_ORIGIN, entry[stage])
      return step ? [step] : []
    })
  return {
    onCreateCommand: steps('onCreateCommand'),
    updateContentCommand: steps('updateContentCommand'),
    postCreateCommand: steps('postCreateCommand'),
    postStartCommand: steps('postStartCommand'),
    postAttachCommand: steps('postAttachCommand'),
  }
}

/** Undefined if there is nothing to run. */
export function lifecycleStep(origin: string, value: LifecycleValue | undefined): LifecycleStep | undefined {
  if (value === undefined) return undefined
  const isNamed = typeof value === 'object' && !Array.isArray(value)
  const named = isNamed ? Object.entries(value) : [[undefined, value] as const]
  const runs = named.flatMap(([name, one]) => {
    const run = lifecycleRun(one)
    return run === undefined ? [] : [{ ...(name !== undefined && { name }), run }]
  })
  return runs.length === 0 ? undefined : { origin, runs }
}

function lifecycleRun(value: string | readonly string[]): LifecycleRun | undefined {
  if (typeof value === 'string') return value.trim() === '' ? undefined : { shell: value }
  const [program, ...args] = value
  return program === undefined || program === '' ? undefined : { program: [program, ...args] }
}

/** The stages that a client waits for, and those that may go on in the background. */
export function waitedStages(waitFor: LifecycleStage = DEFAULT_WAIT_FOR): {
  readonly waited: readonly ContainerStage[]
  readonly background: readonly ContainerStage[]
} {
  const count = CONTAINER_STAGES.findIndex((stage) => stage === waitFor) + 1
  return { waited: CONTAINER_STAGES.slice(0, count), background: CONTAINER_STAGES.slice(count) }
}
