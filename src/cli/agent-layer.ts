/** The layer that an agent is in, built where it is not. It is the same for every project on one base. */
import type { Agent } from '../agents/agent.ts'
import { agentRecipe, type PackageSource } from '../agents/install.ts'
import { kindOf } from '../bases/bases.ts'
import { inParts } from '../config/rules.ts'
import type { RecipeBase } from '../core/recipe.ts'
import type { CommandContext } from './command.ts'
import { BuildLog } from './output/build-log.ts'
import { presetsOf } from './prepare-network.ts'

/** Its digest, for `environment.extras`; undefined where nothing is installed. */
export async function agentLayer(
  ctx: CommandContext,
  agent: Agent,
  base: Pick<RecipeBase, 'name' | 'image'>,
  provider?: string | undefined,
): Promise<string | undefined> {
  const { kind } = agent.install
  if (kind === 'none') return undefined
  const pod = await ctx.client()
  const { arch } = await pod.builds.toolchains()
  const { packageManager } = kindOf(base.name)
  const recipe = agentRecipe(agent, {
    // What else a project's base says, such as the tools it relies on, is no part of the agent's layer.
    base: { name: base.name, ...(base.image !== undefined && { image: base.image }) },
    arch,
    npm: await source(ctx, 'npm'),
    ...(kind === 'pip' && { pip: await source(ctx, 'pip') }),
    ...(packageManager && { apt: await source(ctx, packageManager) }),
  })
  if (!recipe) return undefined
  const log = new BuildLog(ctx.terminal)
  try {
    const asked = recipe as Parameters<typeof pod.builds.build>[0]
    const project = `agent ${agent.name}`
    return (await pod.builds.build(asked, { project, provider, ...log.options })).digest
  } catch (error) {
    log.fail(error)
    throw error
  } finally {
    log.end()
  }
}

async function source(ctx: CommandContext, preset: string): Promise<PackageSource> {
  const { variables, rules } = await presetsOf(ctx).get(preset)
  return { variables, network: rules.map(inParts) }
}
