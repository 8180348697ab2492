/**
 * The state of a project: its commit, and its working copy as a tree, made beside the user's repository. Nothing is written into the repository
 * and nothing that it names is run.
 */
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { Change } from '../changes.ts'
import { look, unreadable } from '../project.ts'
import { diskFull } from './disk-full.ts'
import { withoutFiltered } from './filters.ts'
import { type GitAnswer, type GitOptions, git, gitFailed } from './git.ts'
import { DEFAULT_HISTORY, historyOf } from './history.ts'
import { byteNames, bytesOf, listed, shown } from './names.ts'
import { EMPTY_TREE, type ObjectId, type Repository } from './repository.ts'
import { copyIndex, makeScratch, scratchOptions } from './scratch.ts'
import { type Link, linksOf, openSubmodule } from './submodules.ts'
import { type UserSettings, userSettings } from './user-settings.ts'
import { checkFiles, type Differences, differences } from './working-copy.ts'

export interface ProjectState {
  /** Undefined in a repository without a commit. */
  readonly commit: ObjectId | undefined
  /** T0: what is committed, with what is changed and what is new and not ignored; or the commit's own tree. */
  readonly tree: ObjectId
  /** Undefined where HEAD is detached. */
  readonly branch: string | undefined
  /** Commits whose parents do not go in. */
  readonly shallow: readonly ObjectId[]
  /** How the tree differs from the commit's. */
  readonly changed: readonly ChangedPath[]
  /** Every fetched one, those in others too, an outer one before what is in it. */
  readonly submodules: readonly Submodule[]
  /** What the user should be told, a sentence each. */
  readonly notes: readonly string[]
  /** A git directory of ours that has every object of the tree; it ends with the directory it is in. */
  readonly scratch: string
}

export interface ChangedPath {
  readonly path: string
  readonly kind: Change['kind']
}

export interface Submodule {
  /** From the top of the project. */
  readonly path: string
  readonly repository: Repository
  /** Its own; it names no submodules, as those are in the project's. */
  readonly state: ProjectState
  /** Whether it differs from what the repository around it records. */
  readonly isDirty: boolean
}

export interface StateOptions {
  /** What is not committed stays out. */
  readonly isClean: boolean
  /** Absolute paths that are not looked at, such as our own home inside a project. */
  readonly exclude: readonly string[]
  /** An empty directory of ours. Packs are made from what is in it, so it must outlive them. */
  readonly scratch: string
  /** How many commits go in. */
  readonly history?: number | undefined
  /** Where they were read already. */
  readonly settings?: UserSettings | undefined
}

/** A file may go while it is read; the next look does not list it. */
const MOST_LOOKS = 3
const MOST_SUBMODULES = 1000
const MOST_ATTRIBUTES_BYTES = 1024 * 1024

export async function stateOf(repo: Repository, o: StateOptions): Promise<ProjectState> {
  const { links, ...top } = await singleState(repo, o, join(realpathSync(o.scratch), 'git'), o.settings)
  const found: Submodule[] = []
  const notes = [...top.notes]
  const open: { link: Link; around: Repository; prefix: string }[] = links.map((link) => ({
    link,
    around: repo,
    prefix: '',
  }))
  for (let next = open.shift(); next !== undefined; next = open.shift()) {
    const { link, around, prefix } = next
    const path = prefix + link.path
    const repository = await submoduleAt(around, link, o.isClean)
    if (typeof repository !== 'object') {
      if (repository !== undefined) notes.push(`the submodule ${path} ${repository}`)
      continue
    }
    if (found.length >= MOST_SUBMODULES) throw tooManySubmodules()
    const one = await singleState(repository, o, join(realpathSync(o.scratch), `module-${found.length}`))
    const { links: inner, ...state } = one
    const isDirty = state.commit !== link.commit || state.changed.length > 0
    if (isDirty) notes.push(`the submodule ${path} is not as the project records it; it goes in as it is`)
    notes.push(...state.notes.map((note) => `in the submodule ${path}: ${note}`))
    found.push({ path, repository, state, isDirty })
    open.push(...inner.map((inside) => ({ link: inside, around: repository, prefix: `${path}/` })))
  }
  return { ...top, notes, submodules: found }
}

/** Undefined, or the words for it, where it stays empty. */
async function submoduleAt(
  around: Repository,
  { path, commit }: Link,
  isClean: boolean,
): Promise<Repository | string | undefined> {
  const repo = await openSubmodule(around, path)
  if (repo === undefined) return undefined
  if (!isClean || repo.commit === commit) return repo
  const has = await git(['cat-file', '-e', `${commit}^{commit}`], { cwd: repo.root, env: repo.env })
  if (has.exitCode !== 0) return `stays empty: it does not have the commit ${commit} that is recorded for it`
  return { ...repo, commit, branch: undefined }
}

type SingleState = ProjectState & { readonly links: readonly Link[] }

async function singleState(
  repo: Repository,
  o: StateOptions,
  gitDir: string,
  known?: UserSettings,
): Promise<SingleState> {
  const settings = known ?? (await userSettings(repo))
  mkdirSync(gitDir)
  makeScratch(repo, gitDir, settings)
  const scratch = scratchOptions(repo, gitDir)
  if (o.isClean && repo.commit === undefined) throw nothingCommitted(repo.root)
  const reading = headOf(repo, scratch, gitDir, o.history ?? DEFAULT_HISTORY)
  const [head, working] = await bothOf(
    reading,
    o.isClean
      ? reading.then(({ tree }) => committedTree(repo, scratch, tree))
      : // No commit is looked at here, and so not the border that is being written.
        workingTree(repo, scratch, gitDir, settings, o),
  )
  const state = {
    commit: repo.commit,
    tree: working.tree,
    branch: repo.branch,
    shallow: head.shallow,
    scratch: gitDir,
  }
  const [changed] = await Promise.all([
    changesOf(scratch, head.tree, working.tree),
    settings.isPartial ? checkComplete(scratch, state) : undefined,
  ])
  const notes = [...working.notes, ...lfsNote(repo.root)]
  return { ...state, changed, submodules: [], notes, links: working.links }
}

/** Both are over when this is, also where one fails: what they write lies in a directory that goes then. */
async function bothOf<A, B>(one: Promise<A>, other: Promise<B>): Promise<[A, B]> {
  await Promise.allSettled([one, other])
  return [await one, await other]
}

async function headOf(
  { commit }: Repository,
  scratch: GitOptions,
  gitDir: string,
  history: number,
): Promise<{ tree: ObjectId; shallow: readonly ObjectId[] }> {
  if (commit === undefined) return { tree: EMPTY_TREE, shallow: [] }
  const border = join(gitDir, 'shallow')
  const users = existsSync(border) ? readFileSync(border, 'latin1').split('\n') : []
  const found = await historyOf(scratch, commit, history, new Set(users))
  // From here on git sees what the inside will see.
  writeFileSync(border, found.shallow.map((id) => `${id}\n`).join(''))
  return found
}

interface FoundTree {
  readonly tree: ObjectId
  readonly links: readonly Link[]
  readonly notes: readonly string[]
}

async function committedTree(
  { commit }: Repository,
  scratch: GitOptions,
  tree: ObjectId,
): Promise<FoundTree> {
  return { tree, ...(await linksOf(scratch, commit)) }
}

async function workingTree(
  repo: Repository,
  scratch: GitOptions,
  gitDir: string,
  settings: UserSettings,
  o: StateOptions,
): Promise<FoundTree> {
  for (let attempt = 1; ; attempt++) {
    copyIndex(repo, gitDir)
    const [all, { links, notes }] = await Promise.all([
      differences(scratch, [...o.exclude, o.scratch]),
      linksOf(scratch),
    ])
    const found = await withoutFiltered(scratch, settings, all)
    checkFiles(repo.root, found.present)
    try {
      const refused = await record(scratch, found)
      const tree = (await must(['write-tree', '--missing-ok'], scratch)).stdout.toString('latin1').trim()
      return { tree, links, notes: [...notes, ...found.notes, ...refused] }
    } catch (error) {
      if (attempt >= MOST_LOOKS || !isAgentPodError(error) || error.reason !== 'git.failed') throw error
    }
  }
}

/** Brings the copy of the index to what the files are. Names that git refuses are the answer, as notes. */
async function record(scratch: GitOptions, { present, gone }: Differences): Promise<string[]> {
  if (gone.length > 0) {
    const lines = gone.map((name) => `0 ${'0'.repeat(40)}\t${name}\0`)
    await must(['update-index', '-z', '--index-info'], { ...scratch, input: bytesOf(lines.join('')) })
  }
  if (present.length === 0) return []
  const args = ['update-index', '--add', '--remove', '--replace', '-z', '--stdin']
  const answer = await git(args, { ...scratch, input: listed(present) })
  if (/Permission denied/.test(answer.stderr))
    throw unreadable(/open\("(.*?)"\)/.exec(answer.stderr)?.[1] ?? 'a file', {
      name: '',
      message: '',
      code: 'EACCES',
    })
  if (answer.exitCode !== 0) throw diskFull(answer.stderr) ?? gitFailed(args, answer)
  return [...answer.stderr.matchAll(/^Ignoring path (.*)$/gm)].map(
    ([, name]) =>
      `${shown(Buffer.from(name ?? '').toString('latin1'))} was left out: git allows no such name`,
  )
}

const KINDS: Readonly<Record<string, Change['kind']>> = {
  A: 'added',
  D: 'deleted',
  M: 'modified',
  T: 'type changed',
}

async function changesOf(scratch: GitOptions, from: ObjectId, to: ObjectId): Promise<ChangedPath[]> {
  if (from === to) return []
  const answer = await must(['diff-tree', '-r', '--raw', '-z', '--no-renames', from, to, '--'], scratch)
  const fields = byteNames(answer.stdout)
  const changed: ChangedPath[] = []
  for (let i = 0; i + 1 < fields.length; i += 2)
    changed.push({
      path: bytesOf(fields[i + 1] ?? '').toString('utf8'),
      kind: KINDS[fields[i]?.at(-1) ?? ''] ?? 'modified',
    })
  return changed
}

/** A clone may lack what git would fetch when it is needed; we do not fetch. */
async function checkComplete(
  scratch: GitOptions,
  { commit, tree }: { commit: ObjectId | undefined; tree: ObjectId },
): Promise<void> {
  const roots = [tree, ...(commit === undefined ? [] : [commit])]
  const args = ['rev-list', '--objects', '--no-object-names', '--missing=print', ...roots, '--']
  const answer = await must(args, scratch)
  const missing = answer.stdout.toString('latin1').match(/^\?/gm)?.length ?? 0
  if (missing === 0) return
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'repository.incomplete',
    message: `the repository is a partial clone, and ${missing} of the objects that are needed are not here`,
    hint: 'fetch them: git fetch --refetch --no-filter origin',
  })
}

function lfsNote(root: string): string[] {
  const path = join(root, '.gitattributes')
  const info = look(path)
  if (!info?.isFile() || info.size > MOST_ATTRIBUTES_BYTES) return []
  const isUsed = /\bfilter=lfs\b/.test(readFileSync(path, 'utf8'))
  return isUsed ? ['files in Git LFS go in as pointers, as they are committed'] : []
}

async function must(args: readonly string[], o: GitOptions): Promise<GitAnswer> {
  const answer = await git(args, o)
  if (answer.exitCode !== 0) throw diskFull(answer.stderr) ?? gitFailed(args, answer)
  return answer
}

function nothingCommitted(root: string): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'repository.empty',
    message: `${root} has no commit, so there is nothing but what is not committed`,
    hint: 'commit something, or leave out --clean',
  })
}

function tooManySubmodules(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'project.too_large',
    message: `the project has more than ${MOST_SUBMODULES} submodules`,
    hint: 'remove those that are not needed: git submodule deinit PATH',
  })
}
