/**
 * Remembers which tree of a run was applied to this working tree, so that a follow-up applies only new
 * changes. It is stored in a ref that git keeps per working tree.
 */
import { AgentPodError } from '../../../core/error.ts'
import { type GitOptions, git, gitFailed } from '../plumbing/git.ts'
import { userGit } from '../plumbing/quarantine.ts'
import { OBJECT_ID, type ObjectId, type Repository } from '../plumbing/repository.ts'
import { transfer } from '../plumbing/transfer.ts'

/** SECURITY: the id comes from a server and becomes part of a ref. */
function refOf(run: string): string {
  if (/^run[a-z0-9]{1,64}$/.test(run)) return `refs/worktree/agentpod/applied/${run}`
  throw new AgentPodError({
    code: 'invalid_argument',
    reason: 'run.id',
    message: 'this is not a run id',
  })
}

export async function appliedTree(repo: Repository, run: string): Promise<ObjectId | undefined> {
  const answer = await git(['rev-parse', '--verify', '--quiet', `${refOf(run)}^{tree}`], userGit(repo))
  const id = answer.stdout.toString('latin1').trim()
  return answer.exitCode === 0 && OBJECT_ID.test(id) ? id : undefined
}

/** Called after the files are written. `from` is a tree that the repository already has, if there is one. */
export async function recordApplied(
  repo: Repository,
  quarantine: GitOptions,
  o: { readonly run: string; readonly tree: ObjectId; readonly from: ObjectId | undefined },
): Promise<void> {
  await transfer(repo, quarantine, { commits: [], trees: [o.tree], without: o.from })
  const args = ['update-ref', refOf(o.run), o.tree]
  const answer = await git(args, userGit(repo))
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
}
