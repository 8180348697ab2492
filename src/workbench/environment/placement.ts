/** Which provider makes a sandbox, and how strong its isolation has to be. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { AgentPod } from '../../client/client.ts'
import { ISOLATIONS, type Isolation, isAtLeast, strongestIsolation } from '../../core/capability.ts'
import type { Workbench } from '../workbench.ts'

export interface PlacementOptions {
  readonly provider?: string | undefined
  readonly isolation?: Isolation | undefined
  /** Whether a Docker engine runs inside. */
  readonly docker?: boolean | undefined
}

/**
 * The provider: the request's, then AGENTPOD_PROVIDER, then `provider` in config.toml, then one that isolates
 * enough. The isolation: the request's, or a stronger one that the project's file or config.toml asks for. A
 * Docker engine runs inside if the request or the project's file says so.
 */
export async function placementOf(
  { home, env, client }: Pick<Workbench, 'home' | 'env' | 'client'>,
  request: PlacementOptions = {},
  directory?: string | undefined,
): Promise<PlacementOptions> {
  const own = await projectPlacement(directory)
  const isolation = strongestIsolation(request.isolation, own?.isolation, await userIsolation(home))
  const docker = request.docker ?? own?.docker
  const provider =
    request.provider ??
    (await usualProvider(home, env)) ??
    (isolation === undefined ? undefined : await isolatingProvider(await client(), isolation))
  return {
    ...(provider !== undefined && { provider }),
    ...(isolation !== undefined && { isolation }),
    ...(docker && { docker }),
  }
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

async function userIsolation(home: Workbench['home']): Promise<Isolation | undefined> {
  if (!existsSync(join(home.root, 'config.toml'))) return undefined
  const { readUserIsolation } = await import('../../config/config-files.ts')
  return readUserIsolation(home.root)
}

async function projectPlacement(
  directory: string | undefined,
): Promise<Omit<PlacementOptions, 'provider'> | undefined> {
  if (directory === undefined || !existsSync(join(directory, 'agentpod.toml'))) return undefined
  const { readProjectFile } = await import('../../config/config-files.ts')
  return readProjectFile(directory)?.data
}
