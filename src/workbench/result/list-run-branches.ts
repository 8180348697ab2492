/** Lists the branches of runs in the user's repository, found by the trailers of their commits. */
import { git, gitFailed } from '../../sync/git/plumbing/git.ts'
import { userGit } from '../../sync/git/plumbing/quarantine.ts'
import type { ObjectId, Repository } from '../../sync/git/plumbing/repository.ts'

export const RUN_TRAILER = 'AgentPod-Run'
export const RESULT_TRAILER = 'AgentPod-Result'
export const TURN_TRAILER = 'AgentPod-Turn'

export interface RunBranch {
  readonly name: string
  /** The commit of the run. The user may have added others on top. */
  readonly commit: ObjectId
  readonly run: string
  /** The tree of the run's result. */
  readonly result: string
  /** How many prompts the run had had. */
  readonly turn: number
}

const MOST_COMMITS = 2000
const FIELDS = 3

/**
 * Newest first. `prefix` is the branches' directory with its slash. A branch with later commits of the user
 * counts too.
 */
export async function runBranches(repo: Repository, prefix: string): Promise<RunBranch[]> {
  const tips = await read(repo, [
    'for-each-ref',
    '--sort=-committerdate',
    `--format=%(refname)%09%(objectname)%09%(contents:${TRAILERS})%00`,
    `refs/heads/${prefix}`,
  ])
  const open = new Set(tips.filter(({ run }) => run === '').map(({ name }) => name))
  const below = open.size === 0 ? [] : await read(repo, history(prefix))
  const found = [...tips, ...below.filter(({ name }) => open.has(name))]
  return found.filter(({ run }) => run !== '')
}

/** SECURITY: GT-03. Showing signatures would run the program that the configuration names. */
function history(prefix: string): string[] {
  return [
    'log',
    '--no-show-signature',
    '--no-mailmap',
    '--no-notes',
    '--no-color',
    `--max-count=${MOST_COMMITS}`,
    `--format=tformat:%S%x09%H%x09%(${TRAILERS})%x00`,
    `--branches=${literal(prefix)}*`,
    '--',
  ]
}

/** One placeholder for all trailers: some versions of git mix up the options of several. */
const TRAILERS = `trailers:key=${RUN_TRAILER},key=${RESULT_TRAILER},key=${TURN_TRAILER},unfold`

async function read(repo: Repository, args: readonly string[]): Promise<RunBranch[]> {
  const answer = await git(args, userGit(repo))
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  return answer.stdout
    .toString('utf8')
    .split('\0')
    .map((record) => record.trim())
    .filter((record) => record !== '')
    .map((record) => {
      const [ref = '', commit = '', trailers = ''] = record.split('\t', FIELDS)
      const said = (key: string): string =>
        trailers
          .split('\n')
          .findLast((line) => line.startsWith(`${key}: `))
          ?.slice(key.length + 2)
          .trim() ?? ''
      const name = ref.replace(/^refs\/heads\//, '')
      const turn = Number(/^[1-9][0-9]{0,5}$/.exec(said(TURN_TRAILER))?.[0] ?? 1)
      return { name, commit, run: said(RUN_TRAILER), result: said(RESULT_TRAILER), turn }
    })
}

/** The newest branch of a run. Among several of the same turn, the one with this result. */
export function newestOf(
  branches: readonly RunBranch[],
  run: string,
  tree?: string | undefined,
): RunBranch | undefined {
  const own = branches.filter((one) => one.run === run)
  const last = own.filter(({ turn }) => turn === Math.max(...own.map((one) => one.turn)))
  return last.find(({ result }) => result === tree) ?? last[0]
}

/** Escapes the characters that are special in git's patterns. */
function literal(text: string): string {
  return text.replaceAll(/[*?[\\]/g, '\\$&')
}
