/** Branches of runs in the user's repository, found by what their commits say. */
import { git, gitFailed } from '../sync/git/git.ts'
import { userGit } from '../sync/git/quarantine.ts'
import type { ObjectId, Repository } from '../sync/git/repository.ts'

export const RUN_TRAILER = 'AgentPod-Run'
export const RESULT_TRAILER = 'AgentPod-Result'
export const TURN_TRAILER = 'AgentPod-Turn'

export interface RunBranch {
  readonly name: string
  /** The commit of the run, which more may follow. */
  readonly commit: ObjectId
  readonly run: string
  /** The tree that the run came to. */
  readonly result: string
  /** How many times it had been given something to do. */
  readonly turn: number
}

const MOST_COMMITS = 2000
const FIELDS = 3

/** Newest first; `prefix` is the directory that the branches are in, with its slash. A branch that somebody went on with counts too. */
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

/** SECURITY: GT-03. What the configuration says of signatures would run a program. */
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

/** One placeholder for both: some versions of git mix up the options of several. */
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

/** Of these, what a run came to last, and of several of one turn that with this result; undefined where there is none. */
export function newestOf(
  branches: readonly RunBranch[],
  run: string,
  tree?: string | undefined,
): RunBranch | undefined {
  const own = branches.filter((one) => one.run === run)
  const last = own.filter(({ turn }) => turn === Math.max(...own.map((one) => one.turn)))
  return last.find(({ result }) => result === tree) ?? last[0]
}

/** Characters that mean something in a pattern of git stand for themselves. */
function literal(text: string): string {
  return text.replaceAll(/[*?[\\]/g, '\\$&')
}
