/**
 * Prepares the user's repository for sandboxes: a snapshot with a copy of its state on its environment, and
 * the options that each sandbox is created with.
 */
import { realpathSync } from 'node:fs'
import { relative } from 'node:path'
import type { CreateOptions } from '../../client/sandbox.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import { userSettings } from '../../sync/git/state/user-settings.ts'
import type { WorkingList } from '../../sync/git/state/working-files.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { checkBesideWorkspace } from '../environment/beside-workspace.ts'
import { isUpToDetection, loadEnvironment, preloadEnvironment } from '../environment/load-environment.ts'
import { placementOf } from '../environment/placement.ts'
import { LookedAt, type PlainProject, plainProject, rememberPlain } from '../environment/plain-project.ts'
import type { ReadyEnvironment } from '../environment/ready-environment.ts'
import { bareOptions, type SandboxRequest, usualUser } from '../environment/sandbox-request.ts'
import { loadNetwork } from '../network/load-network.ts'
import type { PreparedNetwork } from '../network/prepare-network.ts'
import { checkDirectory, inEnvironment, openProject, type Project } from '../project/open-project.ts'
import {
  type HeldState,
  holdState,
  type PreparedSnapshot,
  prepareSnapshot,
} from '../project/prepared-snapshot.ts'
import type { Workbench } from '../workbench.ts'
import { copyPrebuild } from './copy-prebuild.ts'

export interface RepositoryRequest extends SandboxRequest {
  /** Copy the commit alone, without uncommitted files. */
  readonly isClean?: boolean | undefined
}

export interface PreparedRepository extends PreparedSnapshot {
  readonly user: string
  /** The project and its environment, as they are outside. */
  readonly outside: { readonly project: Project; readonly ready: ReadyEnvironment | undefined }
  /** With the environment and the variables of presets. */
  readonly options: CreateOptions
  readonly network: PreparedNetwork['network'] | undefined
  /** Settings of package managers, below the user's home. */
  readonly files: readonly { readonly path: string; readonly text: string }[]
  /** The user's directory, relative to the root. Empty when it is the root or not part of the copy. */
  readonly directory: string
}

export async function prepareRepository(
  bench: Workbench,
  repo: Repository,
  request: RepositoryRequest,
): Promise<PreparedRepository> {
  checkDirectory(repo.root)
  const isClean = request.isClean ?? false
  const plain = plainProject(bench.home, repo)
  const listing = Promise.withResolvers<WorkingList | undefined>()
  const holding = holdState(bench, repo, {
    isClean,
    settings: await userSettings(repo),
    onListed: listing.resolve,
    isWholeIndex: plain?.isIndex,
  })
  // With --clean the files are listed all the same: the environment is that of the working copy.
  if (isClean) listing.resolve(undefined)
  const settled = holding.then(
    (held) => held,
    (error: unknown) => {
      listing.reject(error)
      return undefined
    },
  )
  try {
    // Git looks at the files while the code is loaded.
    if (!plain) preloadEnvironment(request, repo.root)
    const { project, ready } = await projectIn(bench, repo, request, { list: await listing.promise, plain })
    const prepared = await prepareIn(bench, repo, request, { project, ready, held: await holding })
    return { ...prepared, directory: directoryOf(bench, repo, project) }
  } finally {
    ;(await settled)?.[Symbol.dispose]()
  }
}

/**
 * The files of a project that is known to ask for nothing are not listed, unless the directory has to be
 * found.
 */
async function projectIn(
  bench: Workbench,
  repo: Repository,
  request: RepositoryRequest,
  { list, plain }: { readonly list: WorkingList | undefined; readonly plain: PlainProject | undefined },
): Promise<Pick<Parts, 'project' | 'ready'>> {
  const open = (files: readonly string[] | undefined): Promise<Project> =>
    openProject(bench, usualUser(request), repo.root, files)
  const isKnown = list && plain?.isStill(list) && (await isUpToDetection(bench, request, repo.root))
  if (isKnown && isTop(bench, repo)) return { project: await open([]), ready: undefined }
  const read = await list?.read()
  const project = await open(read?.files)
  if (isKnown) return { project, ready: undefined }
  const looked = new LookedAt(repo.root)
  const memory = { looked, remember: () => list && rememberPlain(bench.home, repo, list, looked) }
  return {
    project,
    ready: await loadEnvironment(bench, request, project, read?.isWhole ? memory : undefined),
  }
}

function isTop({ cwd }: Workbench, repo: Repository): boolean {
  return realpathSync(cwd) === repo.root
}

/** A directory without files of the project is not in the copy. */
function directoryOf({ cwd, person }: Workbench, repo: Repository, { files }: Project): string {
  const directory = relative(repo.root, realpathSync(cwd))
  if (directory === '' || files.some((file) => file.startsWith(`${directory}/`))) return directory
  const text = `${showHidden(directory)} has no files that git copies, so the command runs at the top of the project`
  person.notice({ kind: 'info', text })
  return ''
}

interface Parts {
  readonly project: Project
  readonly ready: ReadyEnvironment | undefined
  readonly held: HeldState
}

async function prepareIn(
  bench: Workbench,
  repo: Repository,
  request: RepositoryRequest,
  { project, ready, held }: Parts,
): Promise<Omit<PreparedRepository, 'directory'>> {
  const asked = request.options?.environment?.user
  const { user, generated, workspace, ephemeral } = inEnvironment(
    project,
    asked ?? ready?.user ?? usualUser(request),
    ready,
  )
  const placement = await placementOf(bench, request.placement, repo.root)
  const base = ready ? ready.apply(request.options ?? {}) : bareOptions(request)
  const { environment, ...options } = { ...placement, ...base }
  checkBesideWorkspace(options.volumes, workspace)
  const network = await loadNetwork(bench, request.network, { directory: repo.root, wish: ready?.wish })
  const whole = {
    ...options,
    ...(ephemeral.length > 0 && { ephemeral: [...ephemeral] }),
    environment: { ...environment, user, variables: { ...network?.variables, ...environment?.variables } },
  }
  const prepared = await prepareSnapshot(bench, await bench.client(), {
    repo,
    held,
    options: whole,
    user,
    generated,
    workspace,
    prebuild: copyPrebuild(ready, network),
  })
  return {
    ...prepared,
    user,
    outside: { project, ready },
    options: whole,
    network: network?.network,
    files: network?.files ?? [],
  }
}
