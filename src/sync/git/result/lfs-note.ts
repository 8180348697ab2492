/**
 * Notes about files of a result that belong into Git LFS. They arrive as plain content, because no filter is
 * run.
 */

import { displayName } from '../plumbing/byte-names.ts'
import { EXECUTABLE_MODE, FILE_MODE, type TreeChange } from '../plumbing/compare-trees.ts'
import type { GitOptions } from '../plumbing/git.ts'
import { readObjects } from '../plumbing/objects.ts'
import { userGit } from '../plumbing/quarantine.ts'
import type { Repository } from '../plumbing/repository.ts'
import { filtersOf, LFS, POINTER, POINTER_BYTES } from '../state/filters.ts'

const MOST_NAMED = 10
const MOST_BYTES = 16 * 1024 * 1024

/** Reads the attributes of the user's working tree, which a run cannot change. */
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
  const named = raw.slice(0, MOST_NAMED).map((one) => displayName(one.raw))
  const others = raw.length > MOST_NAMED ? ` and ${raw.length - MOST_NAMED} more` : ''
  const [are, them] = raw.length === 1 ? ['is', 'it'] : ['are', 'them']
  return [
    `${named.join(', ')}${others} ${are} in Git LFS by .gitattributes and arrived as plain content; with Git LFS installed, \`git add --renormalize .\` on the branch turns ${them} into pointers`,
  ]
}
