/** Where the project is inside the container, and the mount that the official command would make for it. */
import { posix } from 'node:path'
import type { JsonObject } from '../../util/untrusted-json.ts'

export interface DevcontainerWorkspace {
  readonly workspaceFolder: string
  /** Undefined for compose files, which have mounts of their own. */
  readonly workspaceMount?: string | undefined
}

export interface LocalProject {
  /** Absolute. */
  readonly directory: string
  /** The top of the git repository that the project is in; the project itself if it is in none. */
  readonly gitRoot?: string | undefined
}

/** The workspace before variables are replaced. */
export function workspaceOf(raw: JsonObject, project: LocalProject): DevcontainerWorkspace {
  const said = textOf(raw['workspaceFolder'])
  if (Object.hasOwn(raw, 'dockerComposeFile')) return { workspaceFolder: said ?? '/' }
  const { directory, gitRoot = directory } = project
  const target = posix.join('/workspaces', posix.basename(gitRoot))
  return {
    workspaceFolder: said ?? posix.join(target, posix.relative(gitRoot, directory)),
    workspaceMount: Object.hasOwn(raw, 'workspaceMount')
      ? textOf(raw['workspaceMount'])
      : `type=bind,${quotedPart('source', gitRoot)},${quotedPart('target', target)}`,
  }
}

/** The workspace that a file with replaced variables asks for. */
export function replacedWorkspace(
  workspace: DevcontainerWorkspace,
  configuration: JsonObject,
): DevcontainerWorkspace {
  const folder = textOf(configuration['workspaceFolder'])
  const mount = textOf(configuration['workspaceMount'])
  return {
    workspaceFolder: folder ?? workspace.workspaceFolder,
    workspaceMount: mount ?? workspace.workspaceMount,
  }
}

/** A comma in a path needs quotes, as in a CSV file. */
function quotedPart(name: string, path: string): string {
  const part = `${name}=${path}`
  return path.includes(',') ? `"${part}"` : part
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined
}
