/** Which lifecycle commands of a devcontainer run when. */
import { waitedStages } from '../../config/devcontainer/lifecycle.ts'
import { stagesScript, startScript, stepsScript } from '../../config/plan/devcontainer/lifecycle-script.ts'
import type { Plan } from '../../config/plan/plan.ts'

/** Scripts that prepare a copy of the project, once for each state of its files. */
export interface Prebuild {
  /** When the copy is made: initializeCommand, if it was approved, and onCreateCommand. */
  readonly create: string | undefined
  /** When its files were changed, and the first time: updateContentCommand. */
  readonly update: string | undefined
}

function partsOf({ plan, file, folder }: NonNullable<Plan['devcontainer']>): {
  readonly lifecycle: typeof plan.lifecycle
  readonly file: string
  readonly workspace: string
} {
  return { lifecycle: plan.lifecycle, file, workspace: folder }
}

/** Undefined if nothing has to run. */
export function prebuildOf({ devcontainer }: Pick<Plan, 'devcontainer'>): Prebuild | undefined {
  if (!devcontainer) return undefined
  const parts = partsOf(devcontainer)
  const first = devcontainer.initialize && stepsScript(parts, 'initializeCommand', [devcontainer.initialize])
  const create = [first, stagesScript(parts, ['onCreateCommand'])].filter((one) => one !== undefined)
  const update = stagesScript(parts, ['updateContentCommand'])
  if (create.length === 0 && update === undefined) return undefined
  return { create: create.length === 0 ? undefined : create.join('\n'), update }
}

/** What every start runs. A person does not wait for stages after `waitFor`; programs wait for all. */
export function devcontainerStart(
  { devcontainer }: Pick<Plan, 'devcontainer'>,
  isInteractive: boolean,
): string | undefined {
  if (!devcontainer) return undefined
  const { background } = waitedStages(devcontainer.plan.waitFor)
  return startScript(partsOf(devcontainer), isInteractive ? background : [])
}
