/** Which provider makes a sandbox, and how strong its isolation has to be. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentPod } from '../../client/client.ts'
import { ISOLATIONS, type Isolation, isAtLeast } from '../../core/capability.ts'
import type { Workbench } from '../workbench.ts'

export interface PlacementOptions {
  readonly provider?: string | undefined
  readonly isolation?: Isolation | undefined
}

/**
 * The provider: the request's, then AGENTPOD_PROVIDER, then `provider` in config.toml, then one that isolates
 * enough. The isolation: the request's, or a stronger one that the project's file asks for.
 */
export async function placementOf(
  { home, env, client }: Pick<Workbench, 'home' | 'env' | 'client'>,
  request: PlacementOptions = {},
  directory?: string | undefined,
): Promise<PlacementOptions> {
  const isolation = stronger(request.isolation, await projectIsolation(directory))
  const provider =
    request.provider ??
    (await usualProvider(home, env)) ??
    (isolation === undefined ? undefined : await isolatingProvider(await client(), isolation))
  return { ...(provider !== undefined && { provider }), ...(isolation !== undefined && { isolation }) }
}

/**
 * The environment of a project is built on the provider that its sandboxes run on, so that one is named
 * before the build. Undefined if the default provider will do, or none isolates enough: then the server says
 * what each offers.
 */
async function isolatingProvider(
  pod: Pick<AgentPod, 'providers'>,
  isolation: Isolation,
): Promise<string | undefined> {
  if (isolation === ISOLATIONS[0]) return undefined
  const able = (await pod.providers()).filter(
    (one) => one.ready && one.isolation !== undefined && isAtLeast(one.isolation, isolation),
  )
  return able.some(({ isDefault }) => isDefault) ? undefined : able[0]?.name
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
