/** Gives a project's environment, built. Most of the code is loaded only for a project that has one. */
import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
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
  if (!hasEnvironment(request)) return undefined
  const { base, image, profile } = request
  const placement = await placementOf(bench, request.placement)
  const { detectProject, hasNothing } = await import('./detect-project.ts')
  const detected = detectProject(project)
  // The plan of such a project is that it has none; see `planOnly`.
  const isPlain = !isAsked(request) && placement.provider === undefined && !hasProjectFile(project.directory)
  if (isPlain && hasNothing(detected)) return undefined
  const { buildEnvironment } = await import('./build-environment.ts')
  return buildEnvironment(bench, project, { base, image, profile, detected, ...placement })
}

/** Begins to load the code that the request probably needs. */
export function preloadEnvironment(request: SandboxRequest, directory: string): void {
  if (!hasEnvironment(request)) return
  void import('./detect-project.ts')
  if (isAsked(request) || readdirSync(directory).some((name) => LIKELY.test(name)))
    void import('./build-environment.ts')
}

/** Names at the top of projects that ask for something. Code that is loaded in vain only takes time. */
const LIKELY =
  /^(?:agentpod\.toml|package\.json|pyproject\.toml|requirements.*\.txt|setup\.py|go\.mod|Cargo\.toml|pom\.xml|build\.gradle.*|Gemfile|composer\.json|mix\.exs|deno\.jsonc?|CMakeLists\.txt|Makefile|.*\.(?:csproj|sln))$/

function hasEnvironment({ isBare, options }: SandboxRequest): boolean {
  return !isBare && options?.snapshot === undefined
}

function isAsked({ base, image, profile }: SandboxRequest): boolean {
  return base !== undefined || image !== undefined || profile !== undefined
}

/** Also a link that leads nowhere: reading it says so. */
function hasProjectFile(directory: string): boolean {
  return lstatSync(join(directory, 'agentpod.toml'), { throwIfNoEntry: false }) !== undefined
}
