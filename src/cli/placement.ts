/** Who makes a sandbox, and how well it has to be kept apart: as the command line, the environment and the files say. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ISOLATIONS, type Isolation, isAtLeast } from '../core/capability.ts'
import { chosen } from './args/options.ts'
import type { Parsed } from './args/parse.ts'
import type { CommandContext } from './command.ts'

export interface PlacementWish {
  readonly provider?: string | undefined
  readonly isolation?: Isolation | undefined
}

/**
 * The provider: `--provider`, then AGENTPOD_PROVIDER, then `provider` in config.toml. The isolation: what is asked for, or more where the
 * project's file says so.
 */
export async function placementOf(
  ctx: CommandContext,
  parsed: Parsed,
  directory?: string | undefined,
): Promise<PlacementWish> {
  const provider = parsed.value('provider') ?? (await usualProvider(ctx.home, ctx.env))
  const isolation = stronger(chosen(parsed, 'isolation', ISOLATIONS), await projectIsolation(directory))
  return { ...(provider !== undefined && { provider }), ...(isolation !== undefined && { isolation }) }
}

/** A server in the background looks at the file alone: the shell that happened to start it is not the one of the next command. */
export async function usualProvider(
  home: CommandContext['home'],
  env: CommandContext['env'],
): Promise<string | undefined> {
  const named = env['AGENTPOD_PROVIDER']
  if (named !== undefined && named !== '') return named
  // Most have no such file, and what reads it is not loaded then.
  if (!existsSync(join(home.root, 'config.toml'))) return undefined
  const { readUserProvider } = await import('../config/files.ts')
  return readUserProvider(home.root)
}

async function projectIsolation(directory: string | undefined): Promise<Isolation | undefined> {
  if (directory === undefined || !existsSync(join(directory, 'agentpod.toml'))) return undefined
  const { readProjectFile } = await import('../config/files.ts')
  return readProjectFile(directory)?.data.isolation
}

function stronger(one: Isolation | undefined, other: Isolation | undefined): Isolation | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return isAtLeast(one, other) ? one : other
}
