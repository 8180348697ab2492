/** A branch that was named: of a command, or of a run. It is taken as it is, whatever its run came to since. */
import { badRef } from '../sync/git/branch-name.ts'
import { type GitOptions, git, gitText } from '../sync/git/git.ts'
import { userGit } from '../sync/git/quarantine.ts'
import { lookAt } from '../sync/git/receive.ts'
import { EMPTY_TREE, OBJECT_ID, type ObjectId, type Repository } from '../sync/git/repository.ts'
import type { CommandContext } from './command.ts'
import { projectKey, scratchOf } from './project-objects.ts'
import { RESULT_TRAILER, RUN_TRAILER } from './run-branches.ts'
import type { OpenResult } from './run-result.ts'

export interface NamedBranch {
  readonly name: string
  readonly tip: ObjectId
  /** Undefined where a command made it. */
  readonly run: string | undefined
  /** What the command or the run began with, and came to. */
  readonly from: ObjectId
  readonly tree: ObjectId
  /** The tree that it began with, where that was not what is committed. */
  readonly start: ObjectId | undefined
  /** The tree of the commit that is below all of it. */
  readonly begun: ObjectId | undefined
  /** Of the run, newest first. */
  readonly commits: readonly { readonly commit: ObjectId; readonly tree: ObjectId }[]
}

/** In the message of its commit. */
export const COMMAND_TRAILER = 'AgentPod-Command'

/** Undefined where the word is no branch, or one that AgentPod did not make. */
export async function namedBranch(repo: Repository, word: string): Promise<NamedBranch | undefined> {
  if (badRef(word) !== undefined) return undefined
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

/** From the first commit of the run to the tip of the branch, with whatever somebody put on top of it. */
async function runBranch(repo: Repository, word: string): Promise<NamedBranch | undefined> {
  if (word === repo.branch) return undefined
  const own = userGit(repo)
  // SECURITY: GT-03. What the configuration says of signatures would run a program.
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

/** Of the commit that holds what the user had not committed. */
export function startSubject(run: string): string {
  return `Uncommitted files at the start of ${run}`
}

export async function openBranch(
  { home }: Pick<CommandContext, 'home'>,
  repo: Repository,
  { from, tree, tip }: NamedBranch,
): Promise<OpenResult> {
  const scratch = scratchOf(home, projectKey(repo))
  const close = (): void => scratch[Symbol.dispose]()
  try {
    const received = await lookAt(repo, { tree: from, commit: tip, expected: tree, scratch: scratch.path })
    return { received, objects: [], [Symbol.dispose]: close }
  } catch (error) {
    close()
    throw error
  }
}
