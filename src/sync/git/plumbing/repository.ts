/** Finds the user's repository. */
import { lstatSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { AgentPodError } from '../../../core/error.ts'
import { type GitAnswer, type GitOptions, git } from './git.ts'

export interface Repository {
  /** The top of the working tree. */
  readonly root: string
  /** The directory with objects and refs, which several working trees may share. */
  readonly commonDir: string
  /** The directory with the index and HEAD of this working tree. */
  readonly gitDir: string
  /** Undefined in a repository without a commit. */
  readonly commit: string | undefined
  /** Undefined if HEAD is detached. */
  readonly branch: string | undefined
  readonly env: GitOptions['env']
}

export type ObjectId = string
export const OBJECT_ID = /^[0-9a-f]{40}$/
/** The empty tree. Git knows it without storing it. */
export const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904'

/** `failed_precondition` with reason `repository.none` if the directory is in no repository. */
export async function openRepository(directory: string, env: GitOptions['env']): Promise<Repository> {
  const o = { cwd: directory, env }
  // One process for all of it. Without a commit, git answers only the paths.
  const found = await git([...PLACES, 'HEAD^{commit}', '--symbolic-full-name', 'HEAD'], o)
  const [root = '', commonDir = '', gitDir = '', format = '', ...rest] = found.stdout
    .toString('utf8')
    .split('\n')
  if (format === '') throw none(directory, found.stderr)
  if (format !== 'sha1')
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'repository.format',
      message: `the repository uses ${format} object names; only sha1 is supported`,
    })
  const { commit, head } = (found.exitCode === 0 && headIn(rest)) || (await askedHead(o))
  return {
    root: topOf(directory, root),
    commonDir: realpathSync(commonDir),
    gitDir: realpathSync(gitDir),
    commit,
    // Not git's short form, which differs if a tag has the same name.
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
  /** The full name of the ref that HEAD points to; undefined or HEAD itself if it is detached. */
  readonly head: string | undefined
}

/** Undefined if git took an argument for a file name, or found an ambiguous name. */
function headIn([commit = '', head, ...more]: readonly string[]): Head | undefined {
  return OBJECT_ID.test(commit) && head && more.length === 1 ? { commit, head } : undefined
}

/** Asks for each separately, so that one is known even if the other is not. */
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
 * SECURITY: a repository's configuration may name any directory as its working tree, such as a home
 * directory, and all of it would be copied. So `.git` must be at the top of the working tree.
 */
function topOf(directory: string, root: string): string {
  const real = realpathSync(root)
  let top = realpathSync(directory)
  while (top !== dirname(top) && !lstatSync(join(top, '.git'), { throwIfNoEntry: false })) top = dirname(top)
  if (top === real) return real
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'repository.elsewhere',
    message: `the repository of ${directory} has its working tree in another directory: ${root}`,
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
      message: `${directory} belongs to another user, so git refuses to use it`,
      hint: 'run agentpod as the owner, or mark it as safe: git config --global --add safe.directory DIRECTORY',
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
