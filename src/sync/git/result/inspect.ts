/** Checks a tree from a sandbox. Git checks its objects first; this check does not rely on that. */
import { AgentPodError } from '../../../core/error.ts'
import { isSyncFile, nameRefusal } from '../../two-way/path-rules.ts'
import { type ByteName, bytesOf, displayName } from '../plumbing/byte-names.ts'
import {
  EXECUTABLE_MODE,
  FILE_MODE,
  type InspectDirectory,
  LINK_MODE,
  SUBMODULE_MODE,
} from '../plumbing/compare-trees.ts'
import type { TreeEntry } from '../plumbing/objects.ts'

const MODES: ReadonlySet<string> = new Set(['40000', FILE_MODE, EXECUTABLE_MODE, LINK_MODE, SUBMODULE_MODE])
const LONGEST_PATH_BYTES = 4000

/**
 * SECURITY: throws `result.refused` for trees that git never writes, and for names that a file system reads
 * differently from git (GT-06, GT-07).
 */
export const inspectResult: InspectDirectory = (directory, entries, before) => {
  const names = new Set<ByteName>()
  let last = ''
  for (const entry of entries) {
    const path = `${directory}${entry.name}`
    if (!MODES.has(entry.mode)) throw resultRefused(`${displayName(path)} has the mode ${entry.mode}`)
    if (names.has(entry.name)) throw resultRefused(`${displayName(path)} occurs twice`)
    names.add(entry.name)
    // Git compares a directory's name as if it ended in a slash.
    const key = entry.isTree ? `${entry.name}/` : entry.name
    if (key <= last) throw resultRefused(`${displayName(directory) || 'the top'} is not sorted`)
    last = key
    checkName(path, entry, before.get(entry.name))
  }
}

function checkName(path: ByteName, entry: TreeEntry, was: TreeEntry | undefined): void {
  const name = bytesOf(entry.name).toString('utf8')
  const why = entry.name.includes('/')
    ? 'its name points outside the project'
    : isSyncFile(name)
      ? undefined
      : nameRefusal(name)
  if (why !== undefined) throw resultRefused(`${displayName(path)}: ${why}`)
  if (entry.mode === SUBMODULE_MODE && (was?.mode !== SUBMODULE_MODE || was.id !== entry.id))
    throw resultRefused(`${displayName(path)} is a submodule that the project did not have before`)
  // The project may keep names that it had before.
  if (was) return
  if (/\p{Cc}/u.test(name)) throw resultRefused(`${displayName(path)} has control characters in its name`)
  if (path.length > LONGEST_PATH_BYTES)
    throw resultRefused(`${displayName(path).slice(0, 100)}…: its name is too long`)
}

export function resultRefused(why: string, cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'result.refused',
    message: `the result from the sandbox was refused: ${why}`,
    hint: 'nothing was changed; `agentpod attach` opens a shell in the sandbox, where you can look at it or remove it',
    cause,
  })
}
