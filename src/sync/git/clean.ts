/** Branches of runs that nobody needs any more, and what is remembered of runs that are gone. */
import { existsSync } from 'node:fs'

import { replaceHidden } from '../../util/hidden-characters.ts'
import { type GitOptions, git, gitFailed, gitText } from './git.ts'
import { openQuarantine, userGit } from './quarantine.ts'
import type { ObjectId, Repository } from './repository.ts'

export interface ListedBranch {
  readonly name: string
  readonly commit: ObjectId
  /** Unix milliseconds of its last commit. */
  readonly at: number
  readonly subject: string
  /** Here, or in another working tree of the repository. */
  readonly isCheckedOut: boolean
  /** Merging it into what the user is on would change nothing. */
  readonly isMerged: boolean
}

/** Those below a prefix such as `agentpod/`, newest first. `scratch` is a directory of the caller's, which is used until this ends. */
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

/** Squashed or applied and committed, its commits are nowhere, and all it changed is there. Older versions of git cannot tell. */
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
  /** Only those that are merged. */
  readonly isMergedOnly: boolean
  /** Names that stay. */
  readonly keep?: readonly string[] | undefined
  readonly scratch: string
}

export interface Cleaned {
  /** With the commits they pointed at: `git branch NAME COMMIT` brings one back. */
  readonly removed: readonly { readonly name: string; readonly commit: ObjectId }[]
  readonly kept: readonly { readonly name: string; readonly why: string }[]
}

/** A branch that moves meanwhile stays. */
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
/** Git keeps these for each working tree apart. */
const RUN_REFS_OF_TREES = 'refs/worktree/agentpod/applied/'

/** Removes what is remembered of runs that are gone, in every working tree; answers how many refs that were. */
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
  if (o.keep?.includes(name)) return 'it was asked to stay'
  return o.isMergedOnly && !isMerged ? 'it is not merged' : undefined
}

/** Why it is still there; undefined where it is gone. */
async function remove(repo: Repository, { name, commit }: ListedBranch): Promise<string | undefined> {
  const answer = await git(['update-ref', '-d', `refs/heads/${name}`, commit], userGit(repo))
  return answer.exitCode === 0 ? undefined : 'it changed meanwhile, or git could not remove it'
}
