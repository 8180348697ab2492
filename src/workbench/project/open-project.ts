/** The user's project: its directory, its files, and where its copy is inside a sandbox. */
import { homedir } from 'node:os'
import { basename } from 'node:path'
import { homeOf } from '../../core/environment.ts'
import { invalid } from '../../core/error.ts'
import type { EphemeralDirectory } from '../../core/volume/ephemeral.ts'
import { listProject } from '../../sync/project-files.ts'
import { placeEphemeral, type SaidEphemeral } from '../environment/place-ephemeral.ts'
import type { Workbench } from '../workbench.ts'

export interface Project {
  readonly directory: string
  readonly name: string
  /** The user inside that owns the copy. */
  readonly user: string
  /** The directory of the copy inside. */
  readonly workspace: string
  /** Paths relative to `directory`. */
  readonly files: readonly string[]
  /** Directories of the project that the environment provides, such as installed dependencies. */
  readonly generated: readonly string[]
  /** Directories of its sandboxes that are never kept. Those in the project are among `generated` too. */
  readonly ephemeral: readonly EphemeralDirectory[]
}

/** The project in the current directory, or in `directory`. `known` are its files, if they were listed. */
export async function openProject(
  { home, env, cwd }: Workbench,
  user: string,
  directory: string = cwd,
  known?: readonly string[],
): Promise<Project> {
  checkDirectory(directory)
  const files = known ?? (await listProject({ directory, exclude: [home.root], env }))
  const name = plainName(basename(directory))
  return { directory, name, user, workspace: `${homeOf(user)}/${name}`, files, generated: [], ephemeral: [] }
}

/** Refuses a directory that is more than a project. */
export function checkDirectory(directory: string): void {
  if (directory === '/' || directory === homedir()) {
    throw invalid(
      'project.too_wide',
      `${directory} is not a project: everything in it would be copied into the sandbox`,
      'change to the directory of a project, or start with an empty sandbox: --no-project',
    )
  }
}

/** The name of a directory as it is inside. */
export function plainName(name: string): string {
  const plain = name.replaceAll(/[^\p{L}\p{N}._ -]/gu, '_').replace(/^[-. ]+/, '') || 'project'
  // In a home directory, `go` is Go's own.
  return plain === 'go' ? 'go-project' : plain
}

/**
 * The project in an environment. What the environment provides, and what is never kept, is neither copied in
 * nor compared afterwards.
 */
export function inEnvironment(
  project: Project,
  user: string,
  environment?: {
    readonly workspace?: string | undefined
    readonly generated: readonly string[]
    readonly ephemeral: readonly SaidEphemeral[]
  },
): Project {
  const workspace = environment?.workspace ?? `${homeOf(user)}/${project.name}`
  const provided = environment?.generated ?? []
  const placed = placeEphemeral(environment?.ephemeral ?? [], { user, workspace, generated: provided })
  const generated = [...provided, ...placed.aside]
  const isGenerated = (file: string): boolean => generated.some((path) => file.startsWith(`${path}/`))
  return {
    ...project,
    user,
    generated,
    ephemeral: placed.directories,
    workspace,
    files: project.files.filter((file) => !isGenerated(file)),
  }
}
