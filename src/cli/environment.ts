/** The environment of a project, built where it is not. Most of it is loaded only where a project has one. */
import { imageOption } from './args/options.ts'
import type { OptionSpec, Parsed } from './args/parse.ts'
import type { CommandContext } from './command.ts'
import { placementOf } from './placement.ts'
import type { Project } from './project.ts'
import type { ReadyEnvironment } from './ready.ts'

export const ENVIRONMENT_OPTIONS = {
  bare: { help: 'the base alone: detect nothing, build nothing, start no services' },
  profile: { value: 'NAME', help: 'one of [profiles] in agentpod.toml' },
} as const satisfies Record<string, OptionSpec>

/** Undefined where there is nothing to it: no agentpod.toml and nothing found, or another start was asked for. */
export async function environmentIn(
  ctx: CommandContext,
  parsed: Parsed,
  project: Project,
): Promise<ReadyEnvironment | undefined> {
  if (parsed.has('bare') || parsed.value('from') !== undefined) return undefined
  const { readyEnvironment } = await import('./ready-environment.ts')
  return readyEnvironment(ctx, project, {
    base: parsed.value('base'),
    image: imageOption(parsed),
    profile: parsed.value('profile'),
    ...(await placementOf(ctx, parsed)),
  })
}
