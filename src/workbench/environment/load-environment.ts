/** Gives a project's environment, built. Most of the code is loaded only for a project that has one. */
import type { Project } from '../project/open-project.ts'
import type { Workbench } from '../workbench.ts'
import { placementOf } from './placement.ts'
import type { ReadyEnvironment } from './ready-environment.ts'
import type { SandboxRequest } from './sandbox-request.ts'

/**
 * Undefined when the project has no agentpod.toml and nothing is detected in it, and when the request asks
 * for the bare base or for a snapshot.
 */
export async function loadEnvironment(
  bench: Workbench,
  request: SandboxRequest,
  project: Project,
): Promise<ReadyEnvironment | undefined> {
  if (request.isBare || request.options?.snapshot !== undefined) return undefined
  const { buildEnvironment } = await import('./build-environment.ts')
  return buildEnvironment(bench, project, {
    base: request.base,
    image: request.image,
    profile: request.profile,
    ...(await placementOf(bench, request.placement)),
  })
}
