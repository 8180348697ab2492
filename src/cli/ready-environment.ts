/** Plans a project's environment, builds what is missing, and says how sandboxes begin with it. */
import type { CreateOptions } from '../client/sandbox.ts'
import { parseProjectBase } from '../config/project/environment-table.ts'
import { defined } from '../util/defined.ts'
import type { CommandContext } from './command.ts'
import { BuildLog } from './output/build-log.ts'
import { StepLogs } from './output/step-logs.ts'
import { printable } from './output/terminal.ts'
import {
  buildPlan,
  environmentOf,
  type PlanOptions,
  type PreparedPlan,
  planProject,
} from './prepare-environment.ts'
import type { Project } from './project.ts'
import type { ReadyEnvironment } from './ready.ts'

export async function readyEnvironment(
  ctx: CommandContext,
  project: Project,
  o: PlanOptions,
): Promise<ReadyEnvironment | undefined> {
  if (o.base !== undefined) parseProjectBase(o.base)
  const prepared = await planProject(ctx, project, o)
  if (!prepared) return undefined
  for (const note of prepared.plan.notes) ctx.terminal.say(ctx.terminal.dim(`note: ${printable(note)}`))
  return readyOf(prepared, await built(ctx, prepared))
}

async function built(ctx: CommandContext, prepared: PreparedPlan): Promise<string | undefined> {
  if (prepared.recipe.steps.length === 0) return undefined
  const log = new BuildLog(ctx.terminal, { logs: new StepLogs(ctx.home, prepared.plan.name) })
  try {
    return (await buildPlan(await ctx.client(), prepared, log.options)).digest
  } catch (error) {
    log.fail(error)
    throw error
  } finally {
    log.end()
  }
}

export function readyOf({ plan, wish, mirrors }: PreparedPlan, digest: string | undefined): ReadyEnvironment {
  const environment = environmentOf(plan, digest)
  const { cpus, memoryMib, diskMib, pids, timeoutMs, idleMs } = plan.resources
  return {
    user: plan.user,
    aside: plan.generated,
    wish,
    commands: plan.commands,
    ports: plan.ports,
    begins: environment.start !== undefined || plan.services.some(({ command }) => command !== undefined),
    apply(options: CreateOptions): CreateOptions {
      const { environment: asked = {}, resources = {}, lifetime = {} } = options
      return {
        ...options,
        environment: {
          ...environment,
          ...defined(asked),
          // The base of what is built is known by its digest.
          base: environment.base,
          image: environment.image,
          variables: { ...mirrors, ...environment.variables, ...asked.variables },
        },
        resources: { ...defined({ cpus, memoryMib, diskMib, pids }), ...defined(resources) },
        lifetime: { ...defined({ ttlMs: timeoutMs, idleMs }), ...defined(lifetime) },
      }
    },
  }
}
