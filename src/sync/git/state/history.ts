/** How much history is copied with a commit. */
import { type GitOptions, git, gitFailed } from '../plumbing/git.ts'
import type { ObjectId } from '../plumbing/repository.ts'

export const DEFAULT_HISTORY = 50

export interface History {
  readonly tree: ObjectId
  /** Commits whose parents are not copied. */
  readonly shallow: readonly ObjectId[]
}

/**
 * The newest commits, up to `count`, with their missing parents as the shallow boundary. Git walks no further
 * back, so the cost does not depend on the size of the repository. `userShallow` is the shallow boundary of
 * the user's own clone.
 */
export async function historyOf(
  o: GitOptions,
  commit: ObjectId,
  count: number,
  userShallow: ReadonlySet<ObjectId>,
): Promise<History> {
  const args = ['rev-list', '--no-commit-header', '--format=%H %T %P', `--max-count=${count}`, commit, '--']
  const answer = await git(args, o)
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  const lines = answer.stdout.toString('latin1').trimEnd().split('\n')
  const commits = lines.map((line) => line.split(' '))
  const inside = new Set(commits.map(([id = '']) => id))
  const shallow = new Set([...inside].filter((id) => userShallow.has(id)))
  if (count <= 1) shallow.add(commit)
  else
    for (const [, , ...parents] of commits)
      for (const id of parents) if (id !== '' && !inside.has(id)) shallow.add(id)
  return { tree: commits[0]?.[1] ?? '', shallow: [...shallow].sort() }
}
