/** The user's repository, as far as it has to be known before anything is done. */
import { lstatSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { AgentPodError } from '../../core/error.ts'
import { type GitAnswer, type GitOptions, git } from './git.ts'

export interface Repository {
  /** The top of the working tree. */
  readonly root: string
  /** Where its objects and refs are, also where the working tree is one of several. */
  readonly commonDir: string
  /** Where its index and HEAD are. */
  readonly gitDir: string
  /** Undefined in a repository without a commit. */
  readonly commit: string | undefined
  /** Undefined where HEAD is detached. */
  readonly branch: string | undefined
  readonly env: GitOptions['env']
}

export type ObjectId = string
export const OBJECT_ID = /^[0-9a-f]{40}$/
/** The tree without anything in it, which git knows without having it. */
export const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'

/** `failed_precondition` with reason `repository.none` where the directory is in none. */
export async function openRepository(directory: string, env: GitOptions['env']): Promise<Repository> {
  const o = { cwd: directory, env }
  // One process for all of it: what comes after the places is not answered where there is no commit.
  const found = await git([...PLACES, 'HEAD^{commit}', '--symbolic-full-name', 'HEAD'], o)
  const [root = '', commonDir = '', gitDir = '', format = '', ...rest] = found.stdout
    .toString('utf8')
    .split('\n')
  if (format === '') throw none(directory, found.stderr)
  if (format !== 'sha1')
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'repository.format',
      message: `the repository keeps its objects by ${format}; only sha1 is known here`,
    })
  const { commit, head } = (found.exitCode === 0 && headIn(rest)) || (await askedHead(o))
  return {
    root: topOf(directory, root),
    commonDir: realpathSync(commonDir),
    gitDir: realpathSync(gitDir),
    commit,
    // Not git's short form, which is another where a tag has the same name.
    branch: head?.match(/^refs\/heads\/(.+)$/)?.[1],
    env,
  }
}

const PLACES = [
  'rev-parse',
  '--path-format=absolute',
  '--show-toplevel',
  '--git-common-dir',
  '--absolute-git-dir',
  '--show-object-format',
] as const

interface Head {
  readonly commit: string | undefined
  /** The full name of what HEAD stands for; undefined or HEAD itself where it is detached. */
  readonly head: string | undefined
}

/** Undefined where git took a word for the name of a file, or found two things of one name. */
function headIn([commit = '', head, ...more]: readonly string[]): Head | undefined {
  return OBJECT_ID.test(commit) && head && more.length === 1 ? { commit, head } : undefined
}

/** Each for itself, so that one is known where the other is not. */
async function askedHead(o: GitOptions): Promise<Head> {
  const [commit, head] = await Promise.all([
    git(['rev-parse', '--verify', '--quiet', 'HEAD^{commit}'], o),
    git(['symbolic-ref', '--quiet', 'HEAD'], o),
  ])
  return { commit: lineOf(commit), head: lineOf(head) }
}

function lineOf({ exitCode, stdout }: GitAnswer): string | undefined {
  return exitCode === 0 ? stdout.toString('utf8').trim() : undefined
}

/**
 * SECURITY: a repository's configuration may name any directory as its working tree, such as a home, and all of it would be copied. So the
 * repository must be found at the top of its working tree, where `.git` is.
 */
function topOf(directory: string, root: string): string {
  const real = realpathSync(root)
  let top = realpathSync(directory)
  while (top !== dirname(top) && !lstatSync(join(top, '.git'), { throwIfNoEntry: false })) top = dirname(top)
  if (top === real) return real
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'repository.elsewhere',
    message: `the repository of ${directory} keeps its working tree elsewhere: ${root}`,
    hint: 'run agentpod in a clone, or: git config --unset core.worktree',
  })
}

export function objectsOf({ commonDir }: Repository): string {
  return join(commonDir, 'objects')
}

function none(directory: string, words: string): AgentPodError {
  if (/dubious ownership/.test(words))
    return new AgentPodError({
      code: 'failed_precondition',
      reason: 'repository.owner',
      message: `${directory} belongs to another user, and git does not work in it`,
      hint: 'run agentpod as the owner, or tell git that it is safe: git config --global --add safe.directory DIRECTORY',
    })
  if (/this operation must be run in a work tree/.test(words))
    return new AgentPodError({
      code: 'failed_precondition',
      reason: 'repository.bare',
      message: `${directory} is a bare repository: there is no working tree to copy`,
      hint: 'clone it, and run agentpod in the clone',
    })
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'repository.none',
    message: `${directory} is not in a git repository`,
    hint: 'git init && git add -A && git commit -m "begin", then try again',
  })
}
