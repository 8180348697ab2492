/**
 * The user's later commits, brought together with what a run has made so far. The commit of both is kept by a ref of ours, and the next turn
 * of the run is a commit on it.
 */
import { AgentPodError } from '../../core/error.ts'
import { commitTree } from './branch.ts'
import { type GitOptions, git, gitFailed, gitText } from './git.ts'
import { identityVariables } from './identity.ts'
import { mergedTree } from './merge.ts'
import { openQuarantine, userGit } from './quarantine.ts'
import { OBJECT_ID, type ObjectId, type Repository } from './repository.ts'
import { transfer } from './transfer.ts'
import { compareTrees, type TreeChange } from './tree-changes.ts'

/** SECURITY: a server says what a run is called, and a ref is made of it. */
function refOf(run: string): string {
  if (/^run[a-z0-9]{1,64}$/.test(run)) return `refs/agentpod/updated/${run}`
  throw new AgentPodError({
    code: 'invalid_argument',
    reason: 'run.id',
    message: 'this is not the id of a run',
  })
}

/** The commit that a run was brought up to; undefined where it never was. */
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
  /** The commit that the run has come to; undefined where it has changed nothing yet. */
  readonly last: ObjectId | undefined
  /** What it began with. */
  readonly start: { readonly commit: ObjectId | undefined; readonly tree: ObjectId }
  /** Where objects of the start are that the repository does not have. */
  readonly alsoObjects: readonly string[]
  /** What the user has committed. */
  readonly head: ObjectId
  readonly name: string
  readonly now: number
  /** A directory of the caller's, which lives as long as the update is used. */
  readonly scratch: string
}

export interface Update {
  readonly commit: ObjectId
  /** What has to change where the run works. */
  readonly changes: readonly TreeChange[]
  readonly quarantine: GitOptions
  /** For when the changes are made. */
  record(): Promise<void>
}

/** `conflict` names the files; nothing is changed then. Undefined where there is nothing to bring. */
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

/** A commit of the user's, or one on it with what was not committed. */
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
      'nothing was sent: your commits and the work of the agent change the same lines of',
      ...paths.map((path) => `  ${path}`),
    ].join('\n'),
    hint: `bring them together yourself first: git merge the branch of ${run}, then send again with --update`,
    details: { paths },
  })
}
