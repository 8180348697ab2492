/** What a tree from a sandbox may hold. Git's own check of objects comes first; this one knows nothing of it and trusts nothing to it. */
import { AgentPodError } from '../../core/error.ts'
import { badName, isOurs } from '../two-way-path.ts'
import { type ByteName, bytesOf, shown } from './names.ts'
import type { Entry } from './objects.ts'
import { EXECUTABLE_MODE, FILE_MODE, type Inspect, LINK_MODE, SUBMODULE_MODE } from './tree-changes.ts'

const MODES: ReadonlySet<string> = new Set(['40000', FILE_MODE, EXECUTABLE_MODE, LINK_MODE, SUBMODULE_MODE])
const LONGEST_PATH_BYTES = 4000

/** SECURITY: throws `result.refused` for what no honest git writes, or what means something else to a file system than to git (GT-06, GT-07). */
export const inspectResult: Inspect = (directory, entries, before) => {
  const names = new Set<ByteName>()
  let last = ''
  for (const entry of entries) {
    const path = `${directory}${entry.name}`
    if (!MODES.has(entry.mode)) throw refused(`${shown(path)} has the mode ${entry.mode}`)
    if (names.has(entry.name)) throw refused(`${shown(path)} is there twice`)
    names.add(entry.name)
    // Git compares a directory's name as if it ended in a slash.
    const key = entry.isTree ? `${entry.name}/` : entry.name
    if (key <= last) throw refused(`${shown(directory) || 'the top'} is not in order`)
    last = key
    checkName(path, entry, before.get(entry.name))
  }
}

function checkName(path: ByteName, entry: Entry, was: Entry | undefined): void {
  const name = bytesOf(entry.name).toString('utf8')
  const why = entry.name.includes('/') ? 'its name leads outside' : isOurs(name) ? undefined : badName(name)
  if (why !== undefined) throw refused(`${shown(path)}: ${why}`)
  if (entry.mode === SUBMODULE_MODE && (was?.mode !== SUBMODULE_MODE || was.id !== entry.id))
    throw refused(`${shown(path)} is a submodule that the project did not have`)
  // What the project had before, it may keep.
  if (was) return
  if (/\p{Cc}/u.test(name)) throw refused(`${shown(path)} has control characters in its name`)
  if (path.length > LONGEST_PATH_BYTES) throw refused(`${shown(path).slice(0, 100)}…: its name is too long`)
}

export function refused(why: string, cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'result.refused',
    message: `what came out of the sandbox is not used: ${why}`,
    hint: 'nothing was changed; `agentpod attach` opens a shell in the sandbox, to have a look or to remove it',
    cause,
  })
}
