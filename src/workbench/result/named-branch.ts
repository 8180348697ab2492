/**
 * A branch of a command or of a run, named by the user. It is used as it is, whatever its run has done since.
 */

import { branchNameProblem } from '../../sync/git/branch/branch-name.ts'
import { type GitOptions, git, gitText } from '../../sync/git/plumbing/git.ts'
import { userGit } from '../../sync/git/plumbing/quarantine.ts'
import { EMPTY_TREE, OBJECT_ID, type ObjectId, type Repository } from '../../sync/git/plumbing/repository.ts'
import { inspectBranch } from '../../sync/git/result/receive.ts'
import { projectKey, scratchOf } from '../project/project-state.ts'
import type { Workbench } from '../workbench.ts'
import { RESULT_TRAILER, RUN_TRAILER } from './list-run-branches.ts'
import type { OpenResult } from './open-result.ts'

export interface NamedBranch {
  readonly name: string
  readonly tip: ObjectId
  /** Undefined for a branch of a command. */
  readonly run: string | undefined
  /** The trees at the start and at the end. */
  readonly from: ObjectId
  readonly tree: ObjectId
  /** The tree at the start, if it had uncommitted files. */
  readonly start: ObjectId | undefined
  /** The tree of the commit below the branch's own commits. */
  readonly begun: ObjectId | undefined
  /** Commits of the run, newest first. */
  readonly commits: readonly { readonly commit: ObjectId; readonly tree: ObjectId }[]
}

/** The trailer in the commit of a command's branch. */
export const COMMAND_TRAILER = 'AgentPod-Command'

/** Undefined when there is no such branch, or AgentPod did not make it. */
export async function namedBranch(repo: Repository, word: string): Promise<NamedBranch | undefined> {
  if (branchNameProblem(word) !== undefined) return undefined
  return (await commandBranch(repo, word)) ?? (await runBranch(repo, word))
}

async function commandBranch(repo: Repository, word: string): Promise<NamedBranch | undefined> {
  const own = userGit(repo)
  const found = await git(
    [
      'for-each-ref',
      `--format=%(objectname) %(parent) %(contents:trailers:key=${COMMAND_TRAILER},valueonly)`,
      `refs/heads/${word}`,
    ],
    own,
  )
  const [, tip = '', parents = '', kind = ''] =
    /^(\w{40}) ((?:\w{40})?) (\w+)\n*$/.exec(found.stdout.toString('utf8')) ?? []
  if (!OBJECT_ID.test(tip) || kind === '') return undefined
  const tree = await gitText(['rev-parse', `${tip}^{tree}`], own)
  const from = parents === '' ? EMPTY_TREE : await gitText(['rev-parse', `${parents}^{tree}`], own)
  const isUncommitted = kind === 'uncommitted'
  const begun = isUncommitted ? await treeBelow(own, parents) : undefined
  return {
    name: word,
    run: undefined,
    tip,
    from,
    tree,
    start: isUncommitted ? from : undefined,
    begun,
    commits: [],
  }
}

async function treeBelow(own: GitOptions, commit: ObjectId): Promise<ObjectId> {
  const parent = await git(['rev-parse', '--verify', '--quiet', `${commit}^1^{tree}`], own)
  return parent.exitCode === 0 ? parent.stdout.toString('latin1').trim() : EMPTY_TREE
}

const MOST_COMMITS = 2000

/** From the first commit of the run to the tip of the branch, including later commits of the user. */
async function runBranch(repo: Repository, word: string): Promise<NamedBranch | undefined> {
  if (word === repo.branch) return undefined
  const own = userGit(repo)
  // SECURITY: GT-03. Showing signatures would run the program that the configuration names.
  const found = await git(
    [
      'log',
      '--first-parent',
      '--no-show-signature',
      '--no-mailmap',
      '--no-notes',
      '--no-color',
      `--max-count=${MOST_COMMITS}`,
      `--format=tformat:%H%x09%T%x09%s%x09%(trailers:key=${RUN_TRAILER},key=${RESULT_TRAILER},unfold)%x00`,
      `refs/heads/${word}`,
      '--',
    ],
    own,
  )
  if (found.exitCode !== 0) return undefined
  const commits = found.stdout
    .toString('utf8')
    .split('\0')
    .filter((record) => record.trim() !== '')
    .map((record) => {
      const [commit = '', tree = '', subject = '', trailers = ''] = record.replace(/^\n/, '').split('\t', 4)
      const isResult = trailers.includes(`${RESULT_TRAILER}: `)
      const run = new RegExp(`^${RUN_TRAILER}: (run[a-z0-9]+)$`, 'm').exec(trailers)?.[1]
      return { commit, tree, subject, run: isResult ? run : undefined }
    })
  const run = commits.find((one) => one.run !== undefined)?.run
  const [first] = commits
  if (run === undefined || !first) return undefined
  const below = commits[commits.findLastIndex((one) => one.run === run) + 1]
  const from = below?.tree ?? EMPTY_TREE
  const isStart = below?.subject === startSubject(run)
  const begun = isStart ? (commits[commits.indexOf(below) + 1]?.tree ?? EMPTY_TREE) : undefined
  return {
    name: word,
    run,
    tip: first.commit,
    from,
    tree: first.tree,
    start: isStart ? from : undefined,
    begun,
    commits: commits.filter((one) => one.run === run),
  }
}

/** The subject of the commit with the user's uncommitted files. */
export function startSubject(run: string): string {
  return `Uncommitted files at the start of ${run}`
}

export async function openBranch(
  { home }: Pick<Workbench, 'home'>,
  repo: Repository,
  { from, tree, tip }: NamedBranch,
): Promise<OpenResult> {
  const scratch = scratchOf(home, projectKey(repo))
  const close = (): void => scratch[Symbol.dispose]()
  try {
    const received = await inspectBranch(repo, {
      tree: from,
      commit: tip,
      expected: tree,
      scratch: scratch.path,
    })
    return { received, objects: [], [Symbol.dispose]: close }
  } catch (error) {
    close()
    throw error
  }
}
