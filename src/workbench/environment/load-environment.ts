/** Gives a project's environment, built. Most of the code is loaded only for a project that has one. */
import { lstatSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Detected } from '../../config/detect/detect.ts'
import type { ProjectCompose } from '../compose/project-compose.ts'
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
  const hasContainer = hasDevcontainer(project) && !request.isWithoutDevcontainer
  const isPlain =
    !isAsked(request) &&
    placement.provider === undefined &&
    !hasProjectFile(project.directory) &&
    !hasContainer
  const compose = await composeOf(bench, request, project, detected)
  if (isPlain && !compose && hasNothing(detected)) return undefined
  const { buildEnvironment } = await import('./build-environment.ts')
  if (!compose) {
    const { devcontainer, isWithoutDevcontainer, isWithoutLifecycle, isInteractive } = request
    return buildEnvironment(bench, project, {
      base,
      image,
      profile,
      devcontainer,
      isWithoutDevcontainer,
      isWithoutLifecycle,
      isInteractive,
      compose: request.compose,
      detected,
      ...placement,
    })
  }
  const { composeEnvironment } = await import('../compose/compose-environment.ts')
  return composeEnvironment(bench, project, { request, detected, compose, ...placement })
}

/** The compose file decides if there is no agentpod.toml and no devcontainer, and no image is asked for. */
async function composeOf(
  bench: Workbench,
  request: SandboxRequest,
  project: Project,
  { tree }: Detected,
): Promise<ProjectCompose | undefined> {
  if (isAsked(request) || hasProjectFile(project.directory)) return undefined
  if (hasDevcontainer(project)) {
    const { usesDevcontainer } = await import('../devcontainer/uses-devcontainer.ts')
    if (usesDevcontainer(tree, request)) return undefined
  }
  const { projectCompose } = await import('../compose/project-compose.ts')
  const say = (text: string): void => bench.person.notice({ kind: 'note', text })
  const compose = projectCompose(tree, request.compose ?? {}, say)
  if (!compose) return undefined
  const [{ checkMembers }, { isComposeApproved }] = await Promise.all([
    import('../compose/member-files.ts'),
    import('../compose/approve-compose.ts'),
  ])
  checkMembers(project, { compose: compose.compose, main: compose.service.name })
  return (await isComposeApproved(bench, project.directory, compose)) ? compose : undefined
}

/**
 * What a plan is made from: if a compose file decides, its services are not part of the environment.
 */
export async function composedPlan(
  bench: Workbench,
  request: SandboxRequest,
  project: Project,
): Promise<{ readonly detected: Detected; readonly image?: string | undefined }> {
  const { detectProject, hasNothing } = await import('./detect-project.ts')
  const detected = detectProject(project)
  const compose = await composeOf(bench, request, project, detected)
  if (!compose) return { detected }
  const { withoutServices } = await import('../compose/project-compose.ts')
  const own = withoutServices(detected)
  const { image, build } = compose.service
  return { detected: own, ...(hasNothing(own) && !build && image !== undefined && { image }) }
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
  /^(?:agentpod\.toml|\.devcontainer|\.devcontainer\.json|(?:docker-)?compose\.ya?ml|package\.json|pyproject\.toml|requirements.*\.txt|setup\.py|go\.mod|Cargo\.toml|pom\.xml|build\.gradle.*|Gemfile|composer\.json|mix\.exs|deno\.jsonc?|CMakeLists\.txt|Makefile|.*\.(?:csproj|sln))$/

function hasEnvironment({ isBare, options }: SandboxRequest): boolean {
  return !isBare && options?.snapshot === undefined
}

function isAsked({ base, image, profile, devcontainer }: SandboxRequest): boolean {
  return [base, image, profile, devcontainer].some((one) => one !== undefined)
}

function hasDevcontainer({ files }: Project): boolean {
  return files.some((path) => path === '.devcontainer.json' || path.startsWith('.devcontainer/'))
}

/** Also a link that leads nowhere: reading it says so. */
function hasProjectFile(directory: string): boolean {
  return lstatSync(join(directory, 'agentpod.toml'), { throwIfNoEntry: false }) !== undefined
}
