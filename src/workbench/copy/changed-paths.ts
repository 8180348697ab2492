/** Which paths of a copy may have changed since it was made, without looking at its files. */
import type { Sandbox } from '../../client/sandbox.ts'
import { isAgentPodError } from '../../core/error.ts'

/** The copy, and the snapshot that its sandbox was created from. */
export interface UnchangedCopy {
  readonly workspace: string
  readonly snapshot: string
  /** Directories that are no part of the result. */
  readonly aside?: readonly string[] | undefined
}

/** Undefined if every file has to be looked at. No path is inside another. */
export async function changedPaths(
  sandbox: Pick<Sandbox, 'changes'>,
  copy: UnchangedCopy,
): Promise<readonly string[] | undefined> {
  const { snapshot, paths } = await changesOf(sandbox, copy.workspace)
  if (paths === null || snapshot !== copy.snapshot) return undefined
  const aside = (copy.aside ?? []).filter((path) => path !== '')
  // The workspace's own repository is no part of the result: only its files are.
  const left = paths.filter((path) => !isIn(path, '.git') && !aside.some((out) => isIn(path, out)))
  // A repository inside the project becomes plain files, also files that did not change.
  if (left.some((path) => path.split('/').includes('.git'))) return undefined
  const listed = new Set(left)
  return left.filter((path) => !hasListedParent(path, listed))
}

type Changes = Awaited<ReturnType<Sandbox['changes']>>

async function changesOf(sandbox: Pick<Sandbox, 'changes'>, workspace: string): Promise<Changes> {
  try {
    return await sandbox.changes(workspace)
  } catch (error) {
    // A server of an earlier version has no such route, and a busy disk may answer too late. The changes must
    // not be lost for that: looking at everything finds them, or tells what is wrong.
    if (isAgentPodError(error)) return { snapshot: null, paths: null }
    throw error
  }
}

function isIn(path: string, directory: string): boolean {
  return path === directory || path.startsWith(`${directory}/`)
}

function hasListedParent(path: string, listed: ReadonlySet<string>): boolean {
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1))
    if (listed.has(path.slice(0, at))) return true
  return false
}
