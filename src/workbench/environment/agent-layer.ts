/** The layer with an agent's program. Every project on the same base shares it. */
import type { Agent } from '../../agents/agent.ts'
import { agentRecipe, type PackageSource } from '../../agents/install.ts'
import { baseKind } from '../../bases/bases.ts'
import { networkRuleOf } from '../../config/network/rules.ts'
import type { RecipeBase } from '../../core/recipe.ts'
import { presetsOf } from '../network/prepare-network.ts'
import type { Workbench } from '../workbench.ts'
import { buildCallbacks } from './build-callbacks.ts'

/**
 * Builds the layer and gives its digest for `environment.extras`. Undefined for an agent that needs no
 * installation.
 */
export async function agentLayer(
  bench: Workbench,
  agent: Agent,
  base: Pick<RecipeBase, 'name' | 'image'>,
  provider?: string | undefined,
): Promise<string | undefined> {
  const { kind } = agent.install
  if (kind === 'none') return undefined
  const pod = await bench.client()
  const { arch } = await pod.builds.toolchains()
  const { packageManager } = baseKind(base.name).tools
  const recipe = agentRecipe(agent, {
    // Other facts of a project's base, such as the tools it relies on, are no part of the agent's layer.
    base: { name: base.name, ...(base.image !== undefined && { image: base.image }) },
    arch,
    npm: await source(bench, 'npm'),
    ...(kind === 'pip' && { pip: await source(bench, 'pip') }),
    ...(packageManager && { apt: await source(bench, packageManager) }),
  })
  if (!recipe) return undefined
  using progress = bench.person.progress({})
  try {
    const asked = recipe as Parameters<typeof pod.builds.build>[0]
    const project = `agent ${agent.name}`
    return (await pod.builds.build(asked, { project, provider, ...buildCallbacks(progress) })).digest
  } catch (error) {
    progress.failed(error)
    throw error
  }
}

async function source(bench: Workbench, preset: string): Promise<PackageSource> {
  const { variables, rules } = await presetsOf(bench).get(preset)
  return { variables, network: rules.map(networkRuleOf) }
}
