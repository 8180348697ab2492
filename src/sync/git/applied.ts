/**
 * What of a run this working tree has already, so that a follow-up brings only what is new: a tree, named by a ref that git keeps for each
 * working tree apart.
 */
import { AgentPodError } from '../../core/error.ts'
import { type GitOptions, git, gitFailed } from './git.ts'
import { userGit } from './quarantine.ts'
import { OBJECT_ID, type ObjectId, type Repository } from './repository.ts'
import { transfer } from './transfer.ts'

/** SECURITY: a server says what a run is called, and a ref is made of it. */
function refOf(run: string): string {
  if (/^run[a-z0-9]{1,64}$/.test(run)) return `refs/worktree/agentpod/applied/${run}`
  throw new AgentPodError({
    code: 'invalid_argument',
    reason: 'run.id',
    message: 'this is not the id of a run',
  })
}

export async function appliedTree(repo: Repository, run: string): Promise<ObjectId | undefined> {
  const answer = await git(['rev-parse', '--verify', '--quiet', `${refOf(run)}^{tree}`], userGit(repo))
  const id = answer.stdout.toString('latin1').trim()
  return answer.exitCode === 0 && OBJECT_ID.test(id) ? id : undefined
}

/** For when the files are there. `from` is a tree that the repository has, where it has one. */
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
