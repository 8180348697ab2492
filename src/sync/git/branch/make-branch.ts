/**
 * Creates a branch with the result of a run in the user's repository. Nothing is checked out, no hook runs,
 * nothing is signed.
 */
import { AgentPodError } from '../../../core/error.ts'
import { replaceControls } from '../../../util/hidden-characters.ts'
import { identityVariables } from '../plumbing/commit-identity.ts'
import { diskFull } from '../plumbing/disk-full.ts'
import { editTree } from '../plumbing/edit-tree.ts'
import { type GitOptions, git, gitFailed, gitText } from '../plumbing/git.ts'
import { userGit } from '../plumbing/quarantine.ts'
import { EMPTY_TREE, type ObjectId, type Repository } from '../plumbing/repository.ts'
import { transfer } from '../plumbing/transfer.ts'
import type { Received } from '../result/receive.ts'

const NO_COMMIT = '0'.repeat(40)
const LONGEST_MESSAGE = 32 * 1024

export interface BranchOptions {
  readonly name: string
  readonly message: string
  /** As `Name <address>`. */
  readonly coAuthor: string | undefined
  /** Message of the commit with the user's uncommitted files, if the run began with some. */
  readonly startMessage?: string | undefined
  /** Whether files that tools run later on the host are included. */
  readonly withGated?: boolean | undefined
  /** Overrides `withGated`: the files that are not included. */
  readonly leftOut?: readonly string[] | undefined
  readonly now: number
}

export interface Branch {
  readonly name: string
  /** The tip of the branch. */
  readonly commit: ObjectId
  /** The commit with the user's uncommitted files, if there is one. */
  readonly start: ObjectId | undefined
  /** The trees before and after the last commit. */
  readonly from: ObjectId
  readonly tree: ObjectId
}

/**
 * Creates one commit on the commit that the run began with; before it another one if there were uncommitted
 * files. Undefined if nothing is left to commit. `already_exists` if the branch exists.
 *
 * INVARIANT: the ref is created last, atomically. If the process is killed before, the repository is
 * unchanged.
 */
export async function makeBranch(
  repo: Repository,
  received: Received,
  o: BranchOptions,
): Promise<Branch | undefined> {
  const { quarantine, from } = received
  const left = o.leftOut ?? (o.withGated ? [] : received.gate.map(({ path }) => path))
  const tree = await withoutFiles(received, left)
  if (tree === from) return undefined
  const identity = await identityVariables(repo, o.now)
  const own: GitOptions = { ...quarantine, variables: { ...quarantine.variables, ...identity } }
  const base = received.commit
  const baseTree = base === undefined ? EMPTY_TREE : await gitText(['rev-parse', `${base}^{tree}`], own)
  const start =
    from === baseTree
      ? undefined
      : await commitTree(own, from, base, o.startMessage ?? 'Uncommitted files at the start of the run')
  const commit = await commitTree(own, tree, start ?? base, withCoAuthor(o.message, o.coAuthor))
  await transfer(repo, own, {
    commits: start === undefined ? [commit] : [start, commit],
    trees: [tree, from],
    without: base === undefined ? undefined : baseTree,
  })
  await createRef(repo, `refs/heads/${o.name}`, commit, identity)
  return { name: o.name, commit, start, from, tree }
}

/** The tree with these files reset to the start of the run. */
function withoutFiles(
  { quarantine, tree, treeChanges }: Received,
  paths: readonly string[],
): Promise<ObjectId> {
  const left = new Set(paths)
  const back = treeChanges.filter(({ path }) => left.has(path))
  return editTree(
    quarantine,
    tree,
    back.map(({ raw, before }) => ({ raw, leaf: before })),
  )
}

export function commitTree(
  o: GitOptions,
  tree: ObjectId,
  parents: ObjectId | readonly ObjectId[] | undefined,
  message: string,
): Promise<ObjectId> {
  const after = [parents ?? []].flat().flatMap((id) => ['-p', id])
  return gitText(['commit-tree', ...after, tree], { ...o, input: messageOf(message) })
}

/** A prompt may contain anything; a commit message has to be text. */
function messageOf(message: string): string {
  const text = message
    .slice(0, LONGEST_MESSAGE)
    .toWellFormed()
    .replaceAll(/\r\n?/g, '\n')
    .replaceAll(/[^\P{C}\n\t]/gu, '')
    .trim()
  return `${text || 'Changes of an agent'}\n`
}

function withCoAuthor(message: string, coAuthor: string | undefined): string {
  if (coAuthor === undefined) return message
  return `${message.slice(0, LONGEST_MESSAGE - 1000).trimEnd()}\n\nCo-authored-by: ${replaceControls(coAuthor, ' ').slice(0, 500)}`
}

async function createRef(
  repo: Repository,
  ref: string,
  commit: ObjectId,
  identity: Readonly<Record<string, string>>,
): Promise<void> {
  const o = userGit(repo)
  const args = ['update-ref', '-m', 'agentpod: run', ref, commit, NO_COMMIT]
  const answer = await git(args, { ...o, variables: { ...o.variables, ...identity } })
  if (answer.exitCode === 0) return
  if (!/already exists|exists; cannot create|is at [0-9a-f]+ but expected/.test(answer.stderr))
    throw diskFull(answer.stderr) ?? gitFailed(args, answer)
  throw new AgentPodError({
    code: 'already_exists',
    reason: 'branch.exists',
    message: `the branch ${ref.slice('refs/heads/'.length)} cannot be created: it exists, or another branch blocks its name`,
    hint: 'nothing was changed; choose another name',
  })
}
