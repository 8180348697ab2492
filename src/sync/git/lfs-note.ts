/** Files of a result that the project keeps in Git LFS, and that came as they are: filters are programs, and none is run. */
import { filtersOf, LFS, POINTER, POINTER_BYTES } from './filters.ts'
import type { GitOptions } from './git.ts'
import { shown } from './names.ts'
import { readObjects } from './objects.ts'
import { userGit } from './quarantine.ts'
import type { Repository } from './repository.ts'
import { EXECUTABLE_MODE, FILE_MODE, type TreeChange } from './tree-changes.ts'

const MOST_NAMED = 10
const MOST_BYTES = 16 * 1024 * 1024

/** By the attributes of the user's working tree, which neither an older git nor a run can turn. */
export async function lfsNotes(
  repo: Repository,
  quarantine: GitOptions,
  changes: readonly TreeChange[],
): Promise<string[]> {
  const files = changes.flatMap(({ raw, after }) =>
    after && (after.mode === FILE_MODE || after.mode === EXECUTABLE_MODE) ? [{ raw, id: after.id }] : [],
  )
  if (files.length === 0) return []
  const filterOf = await filtersOf(
    userGit(repo),
    files.map(({ raw }) => raw),
  )
  const kept = files.filter(({ raw }) => filterOf.get(raw) === LFS)
  const small = await readObjects(
    quarantine,
    kept.map(({ id }) => id),
    { type: 'blob', mostBytes: POINTER_BYTES, mostBytesInAll: MOST_BYTES },
  )
  const raw = kept.filter(({ id }) => !POINTER.test(small.get(id)?.toString('latin1') ?? ''))
  if (raw.length === 0) return []
  const named = raw.slice(0, MOST_NAMED).map((one) => shown(one.raw))
  const others = raw.length > MOST_NAMED ? ` and ${raw.length - MOST_NAMED} more` : ''
  const [are, them] = raw.length === 1 ? ['is', 'it'] : ['are', 'them']
  return [
    `${named.join(', ')}${others} ${are} for Git LFS by .gitattributes and came as plain content; on the branch, \`git add --renormalize .\` with Git LFS installed makes pointers of ${them}`,
  ]
}
