/** A branch in the user's repository of what a run made. Nothing is checked out, no hook runs, and no program signs. */
import { AgentPodError } from '../../core/error.ts'
import { diskFull } from './disk-full.ts'
import { type GitOptions, git, gitFailed, gitText } from './git.ts'
import { identityVariables } from './identity.ts'
import { userGit } from './quarantine.ts'
import type { Received } from './receive.ts'
import { EMPTY_TREE, type ObjectId, type Repository } from './repository.ts'
import { transfer } from './transfer.ts'
import { editTree } from './tree-edit.ts'

const NO_COMMIT = '0'.repeat(40)
const LONGEST_MESSAGE = 32 * 1024

export interface BranchOptions {
  readonly name: string
  readonly message: string
  /** Such as `Name <address>`. */
  readonly coAuthor: string | undefined
  /** Of the commit that holds what the user had not committed, where the run began with that. */
  readonly startMessage?: string | undefined
  /** Whether files that run later on the host are part of it. */
  readonly withGated?: boolean | undefined
  /** Instead of that: the files that are not. */
  readonly leftOut?: readonly string[] | undefined
  readonly now: number
}

export interface Branch {
  readonly name: string
  /** What it points at. */
  readonly commit: ObjectId
  /** The commit of what the user had not committed, where there is one. */
  readonly start: ObjectId | undefined
  /** What the last commit changes. */
  readonly from: ObjectId
  readonly tree: ObjectId
}

/**
 * One commit on what the run began with; before it one more where that was not committed. Undefined where nothing is left to commit.
 * `already_exists` where there is such a branch.
 *
 * INVARIANT: the ref comes last, in one step that makes it or fails. Killed before, the repository is as it was.
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

/** The tree with these files as they were at the start. */
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

/** A prompt may hold anything; a commit's message is text. */
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
  return `${message.slice(0, LONGEST_MESSAGE - 1000).trimEnd()}\n\nCo-authored-by: ${coAuthor.replaceAll(/\p{C}/gu, ' ').slice(0, 500)}`
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
    message: `there is a branch ${ref.slice('refs/heads/'.length)} already, or one that is in its way`,
    hint: 'nothing was changed; choose another name',
  })
}
