/** Gives a project's environment, built. Most of the code is loaded only for a project that has one. */
import { readdirSync } from 'node:fs'
import type { Detected } from '../../config/detect/detect.ts'
import type { ProjectCompose } from '../compose/project-compose.ts'
import type { ComposeChoice } from '../compose/used-compose.ts'
import type { Project } from '../project/open-project.ts'
import type { Workbench } from '../workbench.ts'
import { placementOf } from './placement.ts'
import type { LookedAt } from './plain-project.ts'
import { hasProjectFile } from './project-file.ts'
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
  memory?: PlainMemory,
): Promise<ReadyEnvironment | undefined> {
  if (!hasEnvironment(request)) return undefined
  const { base, image, profile } = request
  const placement = await placementOf(bench, request.placement, project.directory)
  const { detectProject, hasNothing } = await import('./detect-project.ts')
  const detected = detectProject(project, memory && ((path) => memory.looked.add(path)))
  // The plan of such a project is that it has none; see `planOnly`.
  const hasContainer = hasDevcontainer(project) && !request.isWithoutDevcontainer
  const isPlain =
    !isAsked(request) &&
    placement.provider === undefined &&
    !hasProjectFile(project.directory) &&
    !hasContainer
  const compose = await composeOf(bench, request, project, detected)
  if (isPlain && !compose && hasNothing(detected)) {
    if (!hasDevcontainer(project) && !mayHaveCompose(project, request)) memory?.remember()
    return undefined
  }
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

/** Called when nothing in the project's files asks for an environment. */
export interface PlainMemory {
  readonly looked: LookedAt
  remember(): void
}

/** Whether only what is detected in the project's files could ask for an environment. */
export async function isUpToDetection(
  bench: Workbench,
  request: SandboxRequest,
  directory: string,
): Promise<boolean> {
  if (isAsked(request) || asksForCompose(request) || hasProjectFile(directory)) return false
  return (await placementOf(bench, request.placement, directory)).provider === undefined
}

/** The compose file of a project, if it decides and the user has approved it. */
export async function composeOf(
  bench: Workbench,
  request: ComposeChoice,
  project: Project,
  { tree }: Detected,
): Promise<ProjectCompose | undefined> {
  if (!mayHaveCompose(project, request)) return undefined
  const { usedCompose } = await import('../compose/used-compose.ts')
  const { directory } = project
  const say = (text: string): void => bench.person.notice({ kind: 'note', text })
  const compose = usedCompose({ directory, tree }, request, say)
  if (!compose) return undefined
  const [{ checkMembers }, { isComposeApproved }] = await Promise.all([
    import('../compose/member-files.ts'),
    import('../compose/approve-compose.ts'),
  ])
  checkMembers(project, { compose: compose.compose, main: compose.service.name })
  return (await isComposeApproved(bench, directory, { compose, tree })) ? compose : undefined
}

/** Most projects have no such file, and the code is large. */
function mayHaveCompose({ files }: Project, choice: ComposeChoice): boolean {
  return asksForCompose(choice) || files.some((file) => /^(?:docker-)?compose\.ya?ml$/.test(file))
}

function asksForCompose({ compose = {} }: ComposeChoice): boolean {
  return compose.service !== undefined || (compose.profiles ?? []).length > 0
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
