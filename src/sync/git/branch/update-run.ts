/**
 * Merges the user's later commits with the result of a run so far. A ref of ours keeps the merge commit, and
 * the next turn of the run is a commit on top of it.
 */
import { AgentPodError } from '../../../core/error.ts'
import { identityVariables } from '../plumbing/commit-identity.ts'
import { compareTrees, type TreeChange } from '../plumbing/compare-trees.ts'
import { type GitOptions, git, gitFailed, gitText } from '../plumbing/git.ts'
import { openQuarantine, userGit } from '../plumbing/quarantine.ts'
import { OBJECT_ID, type ObjectId, type Repository } from '../plumbing/repository.ts'
import { transfer } from '../plumbing/transfer.ts'
import { commitTree } from './make-branch.ts'
import { mergedTree } from './merge-branch.ts'

/** SECURITY: the id comes from a server and becomes part of a ref. */
function refOf(run: string): string {
  if (/^run[a-z0-9]{1,64}$/.test(run)) return `refs/agentpod/updated/${run}`
  throw new AgentPodError({
    code: 'invalid_argument',
    reason: 'run.id',
    message: 'this is not a run id',
  })
}

/** The merge commit of the last update of a run; undefined if there was none. */
export async function updatedCommit(repo: Repository, run: string): Promise<ObjectId | undefined> {
  const answer = await git(['rev-parse', '--verify', '--quiet', `${refOf(run)}^{commit}`], userGit(repo))
  const id = answer.stdout.toString('latin1').trim()
  return answer.exitCode === 0 && OBJECT_ID.test(id) ? id : undefined
}

export async function isAncestor(repo: Repository, older: ObjectId, newer: ObjectId): Promise<boolean> {
  return (await git(['merge-base', '--is-ancestor', older, newer], userGit(repo))).exitCode === 0
}

export interface UpdateOptions {
  readonly run: string
  /** The last commit of the run; undefined if it has changed nothing yet. */
  readonly last: ObjectId | undefined
  /** The state that it began with. */
  readonly start: { readonly commit: ObjectId | undefined; readonly tree: ObjectId }
  /** Directories with objects of the start that the repository does not have. */
  readonly alsoObjects: readonly string[]
  /** The user's current commit. */
  readonly head: ObjectId
  readonly name: string
  readonly now: number
  /** A directory of the caller that exists as long as the update is used. */
  readonly scratch: string
}

export interface Update {
  readonly commit: ObjectId
  /** Changes to make in the run's workspace. */
  readonly changes: readonly TreeChange[]
  readonly quarantine: GitOptions
  /** Records the update, after the changes were made. */
  record(): Promise<void>
}

/** `conflict` names the files; then nothing is changed. Undefined if the run is up to date. */
export async function updateOf(repo: Repository, o: UpdateOptions): Promise<Update | undefined> {
  const clean = await openQuarantine(repo, o.scratch, o.alsoObjects)
  const variables = { ...clean.variables, ...(await identityVariables(repo, o.now)) }
  const quarantine = { ...clean, variables }
  const treeOf = (id: ObjectId): Promise<ObjectId> => gitText(['rev-parse', `${id}^{tree}`], quarantine)
  const from = o.last ?? (await startCommit(quarantine, o.start, treeOf))
  if (await isAncestor(repo, o.head, from)) return undefined
  const tree = await mergedTree(quarantine, from, { tip: o.head, name: o.name }).catch((error: unknown) => {
    throw inTheWay(error, o.run)
  })
  const commit = (await isAncestor(repo, from, o.head))
    ? o.head
    : await commitTree(quarantine, tree, [from, o.head], `Merge ${o.name} into the work of ${o.run}`)
  return {
    commit,
    changes: await compareTrees(quarantine, await treeOf(from), tree),
    quarantine,
    async record() {
      if (commit !== o.head)
        await transfer(repo, quarantine, {
          commits: [from, commit],
          trees: [await treeOf(from), tree],
          without: await treeOf(o.head),
        })
      const args = ['update-ref', '-m', 'agentpod: update', refOf(o.run), commit]
      const answer = await git(args, userGit(repo))
      if (answer.exitCode !== 0) throw gitFailed(args, answer)
    },
  }
}

/** The user's commit, or a commit on top of it with the uncommitted files. */
async function startCommit(
  quarantine: GitOptions,
  { commit, tree }: UpdateOptions['start'],
  treeOf: (id: ObjectId) => Promise<ObjectId>,
): Promise<ObjectId> {
  if (commit !== undefined && (await treeOf(commit)) === tree) return commit
  return commitTree(quarantine, tree, commit, 'Uncommitted files at the start of the run')
}

function inTheWay(error: unknown, run: string): unknown {
  if (!(error instanceof AgentPodError) || error.reason !== 'merge.conflict') return error
  const paths = (error.details?.['paths'] as readonly string[] | undefined) ?? []
  return new AgentPodError({
    code: 'conflict',
    reason: 'update.conflict',
    message: [
      'nothing was sent: your commits and the run change the same lines of',
      ...paths.map((path) => `  ${path}`),
    ].join('\n'),
    hint: `merge them yourself first: git merge the branch of ${run}, then send again with --update`,
    details: { paths },
  })
}
