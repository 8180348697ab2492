/** Plans a project's environment, builds the missing layers, and gives what sandboxes start with. */
import type { CreateOptions } from '../../client/sandbox.ts'
import { addonsLabel } from '../../config/plan/addons/addon-plan.ts'
import { parseProjectBase } from '../../config/project/environment-table.ts'
import type { VolumeRequest } from '../../core/volume/volume.ts'
import { dropUndefined } from '../../util/drop-undefined.ts'
import { prebuildOf } from '../devcontainer/lifecycle-scripts.ts'
import { probeEnvironment } from '../devcontainer/probe-environment.ts'
import type { Project } from '../project/open-project.ts'
import type { Workbench } from '../workbench.ts'
import { buildCallbacks } from './build-callbacks.ts'
import { ephemeralNotes, ephemeralWishes } from './ephemeral-directories.ts'
import type { SaidEphemeral } from './place-ephemeral.ts'
import {
  buildPlan,
  type EnvironmentPlanOptions,
  environmentOf,
  type PreparedPlan,
  planProject,
} from './plan-environment.ts'
import { mergedVolumes, projectVolumes } from './project-volumes.ts'
import type { ReadyEnvironment } from './ready-environment.ts'

export async function buildEnvironment(
  bench: Workbench,
  project: Project,
  o: EnvironmentPlanOptions,
): Promise<ReadyEnvironment | undefined> {
  if (o.base !== undefined) parseProjectBase(o.base)
  const prepared = await planProject(bench, project, o)
  if (!prepared) return undefined
  for (const text of prepared.plan.notes) bench.person.notice({ kind: 'note', text })
  const digest = await built(bench, prepared)
  const { user, devcontainer } = prepared.plan
  const volumes = await projectVolumes(bench, project, {
    user,
    provider: o.provider,
    more: devcontainer?.volumes,
  })
  const ephemeral = ephemeralWishes(project.directory, devcontainer?.ephemeral)
  for (const text of ephemeralNotes(ephemeral, project.files)) bench.person.notice({ kind: 'note', text })
  const probed = await probeEnvironment(bench, prepared, digest)
  return readyOf(prepared, digest, volumes, { probed, ephemeral, isInteractive: o.isInteractive })
}

async function built(bench: Workbench, prepared: PreparedPlan): Promise<string | undefined> {
  if (prepared.recipe.steps.length === 0) return undefined
  using progress = bench.person.progress({ project: prepared.plan.name })
  try {
    return (await buildPlan(await bench.client(), prepared, buildCallbacks(progress))).digest
  } catch (error) {
    progress.failed(error)
    throw error
  }
}

export function readyOf(
  { plan, wish, mirrors }: PreparedPlan,
  digest: string | undefined,
  volumes: readonly VolumeRequest[] = [],
  o: {
    /** Variables that the user's shell sets. */
    readonly probed?: Readonly<Record<string, string>> | undefined
    readonly ephemeral?: readonly SaidEphemeral[] | undefined
    readonly isInteractive?: boolean | undefined
  } = {},
): ReadyEnvironment {
  const plain = environmentOf(plan, digest, o.isInteractive)
  const environment = { ...plain, variables: { ...plain.variables, ...o.probed } }
  const prebuild = prebuildOf(plan)
  const { cpus, memoryMib, diskMib, pids, bandwidthBytes, timeoutMs, idleMs } = plan.resources
  const group = plan.devcontainer?.base.group
  return {
    user: plan.user,
    ...((plan.devcontainer || plan.service) && { workspace: plan.workspace }),
    ...(prebuild && { prebuild }),
    ...(group && !group.isAlone && { compose: group.compose }),
    generated: plan.generated,
    ephemeral: o.ephemeral ?? [],
    wish,
    commands: plan.commands,
    ports: plan.ports,
    addons: plan.addons,
    begins:
      environment.start !== undefined ||
      environment.services?.some(({ needsProject }) => needsProject === true) === true,
    apply(options: CreateOptions): CreateOptions {
      const { environment: asked = {}, resources = {}, lifetime = {} } = options
      return {
        ...options,
        labels: { ...options.labels, ...addonsLabel(plan.addons) },
        ...mergedVolumes(options.volumes, volumes),
        environment: {
          ...environment,
          ...dropUndefined(asked),
          // A built environment stands on the base that it was built on.
          base: environment.base,
          image: environment.image,
          variables: { ...mirrors, ...environment.variables, ...asked.variables },
        },
        resources: {
          ...dropUndefined({ cpus, memoryMib, diskMib, pids, bandwidthBytes }),
          ...dropUndefined(resources),
        },
        lifetime: { ...dropUndefined({ ttlMs: timeoutMs, idleMs }), ...dropUndefined(lifetime) },
      }
    },
  }
}
