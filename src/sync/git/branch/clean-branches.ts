/** Lists and removes branches of runs, and refs of runs that no longer exist. */
import { existsSync } from 'node:fs'

import { replaceHidden } from '../../../util/hidden-characters.ts'
import { type GitOptions, git, gitFailed, gitText } from '../plumbing/git.ts'
import { openQuarantine, userGit } from '../plumbing/quarantine.ts'
import type { ObjectId, Repository } from '../plumbing/repository.ts'

export interface ListedBranch {
  readonly name: string
  readonly commit: ObjectId
  /** Unix milliseconds of its last commit. */
  readonly at: number
  readonly subject: string
  /** In this or another working tree of the repository. */
  readonly isCheckedOut: boolean
  /** Whether merging it into HEAD would change nothing. */
  readonly isMerged: boolean
}

/**
 * Branches below a prefix such as `agentpod/`, newest first. `scratch` is a directory that the caller removes
 * afterwards.
 */
export async function listBranches(
  repo: Repository,
  prefix: string,
  scratch: string,
): Promise<ListedBranch[]> {
  const user = userGit(repo)
  const form =
    '%(refname)%00%(objectname)%00%(committerdate:unix)%00%(if)%(worktreepath)%(then)x%(end)%00%(subject)'
  const args = [
    'for-each-ref',
    '--sort=-committerdate',
    `--format=${form}`,
    `refs/heads/${prefix.replace(/\/+$/, '')}/`,
  ]
  const answer = await git(args, user)
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  const merged = await mergedTips(repo, user)
  const branches: ListedBranch[] = []
  for (const line of answer.stdout.toString('utf8').split('\n').filter(Boolean)) {
    const [ref = '', commit = '', seconds = '', worktree = '', subject = ''] = line.split('\0')
    const name = ref.slice('refs/heads/'.length)
    const isMerged = merged.has(commit) || (await changesNothing(repo, commit, scratch))
    branches.push({
      name,
      commit,
      at: Number(seconds) * 1000,
      subject: replaceHidden(subject),
      isCheckedOut: worktree !== '' || name === repo.branch,
      isMerged,
    })
  }
  return branches
}

async function mergedTips(repo: Repository, user: GitOptions): Promise<ReadonlySet<ObjectId>> {
  if (repo.commit === undefined) return new Set()
  const ids = await gitText(['for-each-ref', '--merged=HEAD', '--format=%(objectname)', 'refs/heads/'], user)
  return new Set(ids.split('\n'))
}

/**
 * Whether HEAD has all its changes without its commits: squashed, or applied and committed. Old versions of
 * git cannot tell.
 */
async function changesNothing(repo: Repository, commit: ObjectId, scratch: string): Promise<boolean> {
  if (repo.commit === undefined) return false
  const quarantine = await openQuarantine(repo, scratch)
  const answer = await git(['merge-tree', '--write-tree', '--no-messages', repo.commit, commit], quarantine)
  if (answer.exitCode !== 0) return false
  const tree = await gitText(['rev-parse', `${repo.commit}^{tree}`], quarantine)
  return answer.stdout.toString('latin1').trim() === tree
}

export interface CleanOptions {
  readonly prefix: string
  /** Remove only merged branches. */
  readonly isMergedOnly: boolean
  /** Names to keep. */
  readonly keep?: readonly string[] | undefined
  readonly scratch: string
}

export interface Cleaned {
  /** With their commits: `git branch NAME COMMIT` restores one. */
  readonly removed: readonly { readonly name: string; readonly commit: ObjectId }[]
  readonly kept: readonly { readonly name: string; readonly why: string }[]
}

/** A branch that changes in the meantime is kept. */
export async function cleanBranches(repo: Repository, o: CleanOptions): Promise<Cleaned> {
  const removed: { name: string; commit: ObjectId }[] = []
  const kept: { name: string; why: string }[] = []
  for (const branch of await listBranches(repo, o.prefix, o.scratch)) {
    const why = reasonToKeep(branch, o) ?? (await remove(repo, branch))
    if (why === undefined) removed.push({ name: branch.name, commit: branch.commit })
    else kept.push({ name: branch.name, why })
  }
  return { removed, kept }
}

const RUN_REFS = 'refs/agentpod/updated/'
/** Git keeps these per working tree. */
const RUN_REFS_OF_TREES = 'refs/worktree/agentpod/applied/'

/** Removes refs of runs that no longer exist, in every working tree; returns how many. */
export async function cleanRunRefs(repo: Repository, isGone: (run: string) => boolean): Promise<number> {
  const user = userGit(repo)
  const list = await gitText(['worktree', 'list', '--porcelain', '-z'], user)
  const trees = list.split('\0').flatMap((line) => (line.startsWith('worktree ') ? [line.slice(9)] : []))
  const places = [
    { o: user, below: RUN_REFS },
    ...trees
      .filter((path) => existsSync(path))
      .map((cwd) => ({ o: { ...user, cwd }, below: RUN_REFS_OF_TREES })),
  ]
  let count = 0
  for (const { o, below } of places) {
    const refs = await gitText(['for-each-ref', '--format=%(refname) %(objectname)', below], o)
    for (const line of refs.split('\n').filter(Boolean)) {
      const [ref = '', id = ''] = line.split(' ')
      if (!isGone(ref.slice(below.length))) continue
      if ((await git(['update-ref', '-d', ref, id], o)).exitCode === 0) count++
    }
  }
  return count
}

function reasonToKeep({ name, isCheckedOut, isMerged }: ListedBranch, o: CleanOptions): string | undefined {
  if (isCheckedOut) return 'it is checked out'
  if (o.keep?.includes(name)) return 'you asked to keep it'
  return o.isMergedOnly && !isMerged ? 'it is not merged' : undefined
}

/** Why it was not removed; undefined if it was. */
async function remove(repo: Repository, { name, commit }: ListedBranch): Promise<string | undefined> {
  const answer = await git(['update-ref', '-d', `refs/heads/${name}`, commit], userGit(repo))
  return answer.exitCode === 0 ? undefined : 'it changed in the meantime, or git could not remove it'
}
