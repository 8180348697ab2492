/** Which provider makes a sandbox, and how strong its isolation has to be. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type Isolation, isAtLeast } from '../../core/capability.ts'
import type { Workbench } from '../workbench.ts'

export interface PlacementOptions {
  readonly provider?: string | undefined
  readonly isolation?: Isolation | undefined
}

/**
 * The provider: the request's, then AGENTPOD_PROVIDER, then `provider` in config.toml. The isolation: the
 * request's, or a stronger one that the project's file asks for.
 */
export async function placementOf(
  { home, env }: Pick<Workbench, 'home' | 'env'>,
  request: PlacementOptions = {},
  directory?: string | undefined,
): Promise<PlacementOptions> {
  const provider = request.provider ?? (await usualProvider(home, env))
  const isolation = stronger(request.isolation, await projectIsolation(directory))
  return { ...(provider !== undefined && { provider }), ...(isolation !== undefined && { isolation }) }
}

/**
 * A background server passes no variables: the shell that started it is not the shell of the next command.
 */
export async function usualProvider(
  home: Workbench['home'],
  env: Workbench['env'],
): Promise<string | undefined> {
  const named = env['AGENTPOD_PROVIDER']
  if (named !== undefined && named !== '') return named
  // Most users have no such file; then the code that reads it is not loaded.
  if (!existsSync(join(home.root, 'config.toml'))) return undefined
  const { readUserProvider } = await import('../../config/config-files.ts')
  return readUserProvider(home.root)
}

async function projectIsolation(directory: string | undefined): Promise<Isolation | undefined> {
  if (directory === undefined || !existsSync(join(directory, 'agentpod.toml'))) return undefined
  const { readProjectFile } = await import('../../config/config-files.ts')
  return readProjectFile(directory)?.data.isolation
}

function stronger(one: Isolation | undefined, other: Isolation | undefined): Isolation | undefined {
  if (one === undefined || other === undefined) return one ?? other
  return isAtLeast(one, other) ? one : other
}
