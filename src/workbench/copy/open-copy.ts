/** Opens a copy of the user's project: of the repository that the user is in, or else of the directory. */
import type { CreateOptions, Sandbox } from '../../client/sandbox.ts'
import { isAgentPodError } from '../../core/error.ts'
import { DEFAULT_LIFETIME } from '../../core/spec.ts'
import { openRepository, type Repository } from '../../sync/git/plumbing/repository.ts'
import { dropUndefined } from '../../util/drop-undefined.ts'
import { besideGroup } from '../compose/beside-group.ts'
import { checkBesideWorkspace } from '../environment/beside-workspace.ts'
import { loadEnvironment } from '../environment/load-environment.ts'
import { placementOf } from '../environment/placement.ts'
import type { ReadyEnvironment } from '../environment/ready-environment.ts'
import { bareOptions, type SandboxRequest, usualUser } from '../environment/sandbox-request.ts'
import { loadNetwork } from '../network/load-network.ts'
import type { PreparedNetwork } from '../network/prepare-network.ts'
import { interruptibly } from '../on-interrupt.ts'
import { inEnvironment, openProject, type Project } from '../project/open-project.ts'
import { projectLabel } from '../project/project-label.ts'
import { recordSandbox } from '../project/project-sandboxes.ts'
import type { Workbench } from '../workbench.ts'
import { copyPrebuild } from './copy-prebuild.ts'
import { createWithProgress } from './create-with-progress.ts'
import { createKept } from './kept-lifetime.ts'
import type { RepositoryRequest } from './prepare-repository.ts'
import { emptyCopy, type ProjectCopy } from './project-copy.ts'

export interface CopyRequest extends RepositoryRequest {
  /** Start with an empty sandbox. */
  readonly isEmpty?: boolean | undefined
}

/** Without `repo` it is a copy of the current directory, or an empty sandbox. */
export async function openCopy(
  bench: Workbench,
  request: CopyRequest,
  repo: Repository | undefined,
): Promise<ProjectCopy> {
  if (repo) {
    const { copyRepository } = await import('./repository-copy.ts')
    return copyRepository(bench, repo, request)
  }
  if (request.isEmpty) {
    const { sandbox } = await createFor(bench, request, undefined, undefined)
    return emptyCopy(sandbox)
  }
  const project = await openProject(bench, usualUser(request))
  return openDirectoryCopy(bench, request, { project, ready: await loadEnvironment(bench, request, project) })
}

/**
 * The repository that would be copied. Undefined outside one, and when the request asks for something else.
 */
export async function repositoryToCopy(
  { cwd, env }: Workbench,
  request: CopyRequest,
): Promise<Repository | undefined> {
  if (!isCopied(request)) return undefined
  // What is needed next loads while git looks for a repository.
  void import('./repository-copy.ts')
  void import('../../client/client.ts')
  try {
    return await openRepository(cwd, env)
  } catch (error) {
    // Files of a repository that git cannot open are copied like any others.
    if (isAgentPodError(error, 'failed_precondition') || isAgentPodError(error, 'unsupported'))
      return undefined
    throw error
  }
}

function isCopied({ isEmpty, options }: CopyRequest): boolean {
  return !isEmpty && options?.snapshot === undefined
}

/** A copy of the files of a directory, also of one in a repository. */
export async function openDirectoryCopy(
  bench: Workbench,
  request: SandboxRequest,
  { project, ready }: { readonly project: Project; readonly ready: ReadyEnvironment | undefined },
): Promise<ProjectCopy> {
  const { sandbox, own, isPrepared } = await createFor(bench, request, project, ready)
  const { copyDirectory } = await import('./directory-copy.ts')
  const fill = async (): Promise<ProjectCopy> => {
    const copy = await copyDirectory(bench, sandbox, own ?? project, isPrepared)
    // With the files in it, everything has started with the sandbox.
    if (ready?.begins && !isPrepared) await sandbox.begin()
    return copy
  }
  try {
    return await interruptibly(() => sandbox.destroy(), fill)
  } catch (error) {
    await sandbox.destroy()
    throw error
  }
}

export interface CreatedFor {
  readonly sandbox: Sandbox
  /** The project as it is in its environment. */
  readonly own: Project | undefined
  /** Whether the sandbox has the project's files, prepared by the commands of its devcontainer. */
  readonly isPrepared: boolean
}

/** A sandbox for the project. */
export async function createFor(
  bench: Workbench,
  request: SandboxRequest,
  project: Project | undefined,
  ready: ReadyEnvironment | undefined,
  labels: Readonly<Record<string, string>> = {},
): Promise<CreatedFor> {
  const asked = request.options?.environment?.user
  const own = project && ready ? inEnvironment(project, asked ?? ready.user, ready) : project
  const placement = await placementOf(bench, request.placement, project?.directory)
  const options = ready ? ready.apply(request.options ?? {}) : bareFor(request, project)
  if (own) checkBesideWorkspace(options.volumes, own.workspace)
  const network = await loadNetwork(bench, request.network, {
    directory: project?.directory,
    wish: ready?.wish,
  })
  const whole = {
    ...placement,
    ...options,
    ...(own && own.ephemeral.length > 0 && { ephemeral: [...own.ephemeral] }),
    labels: { ...options.labels, ...(own && projectLabel(own.name)), ...labels },
  }
  const pod = await bench.client()
  const snapshot =
    own && ready?.prebuild && (await preparedBy(bench, own, { ready, options: whole, network }))
  const create = (one: CreateOptions): Promise<Sandbox> =>
    createWithProgress(pod, bench.person, snapshot === undefined ? one : onSnapshot(one, snapshot), network)
  const isKept = request.isKept || request.isCurrent
  const sandbox = await besideGroup(bench, { ready, project, isKept, ...placement }, (place) => {
    const placed = place ? { ...whole, place } : whole
    return request.isKept ? createKept(bench.person, placed, create) : create(placed)
  })
  if (own && isKept) recordSandbox(bench.home, sandbox.id, own)
  return { sandbox, own, isPrepared: snapshot !== undefined }
}

/** The snapshot of the project's files that the commands of its devcontainer have prepared. */
async function preparedBy(
  bench: Workbench,
  project: Project,
  {
    ready,
    options,
    network,
  }: {
    readonly ready: ReadyEnvironment
    readonly options: CreateOptions
    readonly network: PreparedNetwork | undefined
  },
): Promise<string | undefined> {
  const { user, workspace, generated } = project
  const prebuild = copyPrebuild(ready, network)
  if (!prebuild) return undefined
  const { prepareDirectory } = await import('../project/prepared-directory.ts')
  const on = { options, user, generated, workspace, prebuild }
  return await prepareDirectory(bench, await bench.client(), project, on)
}

/** A snapshot has a network and a lifetime of its own, which this sandbox must not inherit. */
function onSnapshot(options: CreateOptions, snapshot: string): CreateOptions {
  return {
    ...options,
    snapshot,
    network: { mode: 'allowlist', allow: [], ...dropUndefined(options.network ?? {}) },
    lifetime: {
      ttlMs: DEFAULT_LIFETIME.ttlMs,
      whenOver: 'destroy',
      ...dropUndefined(options.lifetime ?? {}),
    },
  }
}

/** In an image the project is in the home directory of the image's user, so commands run as that user. */
function bareFor(request: SandboxRequest, project: Project | undefined): ReturnType<typeof bareOptions> {
  const options = bareOptions(request)
  if (!project || request.image === undefined) return options
  return { ...options, environment: { ...options.environment, user: usualUser(request) } }
}
