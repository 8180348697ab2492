/** Plans a project's environment, builds the missing layers, and gives what sandboxes start with. */
import type { CreateOptions } from '../../client/sandbox.ts'
import { parseProjectBase } from '../../config/project/environment-table.ts'
import type { VolumeRequest } from '../../core/volume/volume.ts'
import { dropUndefined } from '../../util/drop-undefined.ts'
import type { Project } from '../project/open-project.ts'
import type { Workbench } from '../workbench.ts'
import { buildCallbacks } from './build-callbacks.ts'
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
  const { user } = prepared.plan
  const volumes = await projectVolumes(bench, project, { user, provider: o.provider })
  return readyOf(prepared, digest, volumes)
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
): ReadyEnvironment {
  const environment = environmentOf(plan, digest)
  const { cpus, memoryMib, diskMib, pids, timeoutMs, idleMs } = plan.resources
  return {
    user: plan.user,
    generated: plan.generated,
    wish,
    commands: plan.commands,
    ports: plan.ports,
    begins: environment.start !== undefined || plan.services.some(({ command }) => command !== undefined),
    apply(options: CreateOptions): CreateOptions {
      const { environment: asked = {}, resources = {}, lifetime = {} } = options
      return {
        ...options,
        ...mergedVolumes(options.volumes, volumes),
        environment: {
          ...environment,
          ...dropUndefined(asked),
          // A built environment stands on the base that it was built on.
          base: environment.base,
          image: environment.image,
          variables: { ...mirrors, ...environment.variables, ...asked.variables },
        },
        resources: { ...dropUndefined({ cpus, memoryMib, diskMib, pids }), ...dropUndefined(resources) },
        lifetime: { ...dropUndefined({ ttlMs: timeoutMs, idleMs }), ...dropUndefined(lifetime) },
      }
    },
  }
}
