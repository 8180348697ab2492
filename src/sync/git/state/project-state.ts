/**
 * The state of a project: its commit, and its working copy as a tree, made beside the user's repository.
 * Nothing is written into the repository, and no program that it names is run.
 */
import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { AgentPodError, isAgentPodError } from '../../../core/error.ts'
import { sha256Hex } from '../../../util/sha256.ts'
import type { CommandChange } from '../../changes.ts'
import { look, unreadable } from '../../project-files.ts'
import { byteNames, bytesOf, displayName, nulTerminated } from '../plumbing/byte-names.ts'
import { diskFull } from '../plumbing/disk-full.ts'
import { type GitAnswer, type GitOptions, git, gitFailed } from '../plumbing/git.ts'
import { EMPTY_TREE, type ObjectId, type Repository } from '../plumbing/repository.ts'
import { cachedTree } from './cached-tree.ts'
import { withoutFiltered } from './filters.ts'
import { DEFAULT_HISTORY, historyOf } from './history.ts'
import { type ReadIndex, readIndex } from './read-index.ts'
import { copyIndex, makeScratch, scratchOptions } from './scratch-repository.ts'
import { type FoundLinks, linksOf, openSubmodule, type SubmoduleLink, submoduleLinks } from './submodules.ts'
import { type UserSettings, userSettings } from './user-settings.ts'
import { checkFiles, type Differences, differences } from './working-copy.ts'
import { type WorkingList, workingList } from './working-files.ts'

export interface ProjectState {
  /** Undefined in a repository without a commit. */
  readonly commit: ObjectId | undefined
  /** The commit with changed files and new files that are not ignored; or the commit's own tree. */
  readonly tree: ObjectId
  /** Undefined if HEAD is detached. */
  readonly branch: string | undefined
  /** Commits whose parents are not copied. */
  readonly shallow: readonly ObjectId[]
  /** Differences from the commit's tree. */
  readonly changed: readonly ChangedPath[]
  /** Every fetched submodule, nested ones too; an outer one comes before those inside it. */
  readonly submodules: readonly Submodule[]
  /** Notes for the user, one sentence each. */
  readonly notes: readonly string[]
  /** A git directory of ours that has every object of the tree. It exists as long as its parent directory. */
  readonly scratch: string
}

export interface ChangedPath {
  readonly path: string
  readonly kind: CommandChange['kind']
}

export interface Submodule {
  /** Relative to the top of the project. */
  readonly path: string
  readonly repository: Repository
  /** The submodule's own state. Nested submodules are listed in the project's state instead. */
  readonly state: ProjectState
  /** Whether it differs from the commit that its parent repository records. */
  readonly isDirty: boolean
}

export interface ProjectStateOptions {
  /** Leaves out uncommitted changes. */
  readonly isClean: boolean
  /** Absolute paths that are skipped, such as AGENTPOD_HOME inside a project. */
  readonly exclude: readonly string[]
  /** An empty directory of ours. Packs are made from its contents, so it must outlive them. */
  readonly scratch: string
  /** How many commits are copied. */
  readonly history?: number | undefined
  /** The user's settings, if they were read already. */
  readonly settings?: UserSettings | undefined
  /**
   * Called once, before the tree is made, with the list of the working copy's files. Undefined if they have
   * to be listed. Not called with `isClean`.
   */
  readonly onListed?: ((list: WorkingList | undefined) => void) | undefined
  /** Whether a list with this index was whole: then the index has no submodules, and is not read. */
  readonly isWholeIndex?: ((digest: string) => boolean) | undefined
}

/** A file may disappear while it is read; the next attempt does not list it. */
const MOST_LOOKS = 3
const MOST_SUBMODULES = 1000
const MOST_ATTRIBUTES_BYTES = 1024 * 1024

export async function readProjectState(repo: Repository, o: ProjectStateOptions): Promise<ProjectState> {
  const { links, ...top } = await singleState(repo, o, join(realpathSync(o.scratch), 'git'), o.settings)
  const found: Submodule[] = []
  const notes = [...top.notes]
  const open: { link: SubmoduleLink; around: Repository; prefix: string }[] = links.map((link) => ({
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
    const one = await singleState(
      repository,
      { ...o, onListed: undefined, isWholeIndex: undefined },
      join(realpathSync(o.scratch), `module-${found.length}`),
    )
    const { links: inner, ...state } = one
    const isDirty = state.commit !== link.commit || state.changed.length > 0
    if (isDirty)
      notes.push(`the submodule ${path} is not at the commit that the project records; it is copied as it is`)
    notes.push(...state.notes.map((note) => `in the submodule ${path}: ${note}`))
    found.push({ path, repository, state, isDirty })
    open.push(...inner.map((inside) => ({ link: inside, around: repository, prefix: `${path}/` })))
  }
  return { ...top, notes, submodules: found }
}

/** Undefined, or a text that says why, if the submodule stays empty. */
async function submoduleAt(
  around: Repository,
  { path, commit }: SubmoduleLink,
  isClean: boolean,
): Promise<Repository | string | undefined> {
  const repo = await openSubmodule(around, path)
  if (repo === undefined) return undefined
  if (!isClean || repo.commit === commit) return repo
  const has = await git(['cat-file', '-e', `${commit}^{commit}`], { cwd: repo.root, env: repo.env })
  if (has.exitCode !== 0) return `stays empty: it lacks the commit ${commit} that the project records`
  return { ...repo, commit, branch: undefined }
}

type SingleState = ProjectState & { readonly links: readonly SubmoduleLink[] }

async function singleState(
  repo: Repository,
  o: ProjectStateOptions,
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
        workingTree(repo, scratch, gitDir, { ...o, settings, head: reading }),
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

/** Waits for both even if one fails, because the directory that they write to is removed afterwards. */
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
  // From here on git sees the same history as in the sandbox.
  writeFileSync(border, found.shallow.map((id) => `${id}\n`).join(''))
  return found
}

const NO_LINKS: FoundLinks = { links: [], notes: [] }

interface FoundTree {
  readonly tree: ObjectId
  readonly links: readonly SubmoduleLink[]
  readonly notes: readonly string[]
}

async function committedTree(
  { commit }: Repository,
  scratch: GitOptions,
  tree: ObjectId,
): Promise<FoundTree> {
  return { tree, ...(await submoduleLinks(scratch, commit)) }
}

async function workingTree(
  repo: Repository,
  scratch: GitOptions,
  gitDir: string,
  o: ProjectStateOptions & { readonly settings: UserSettings; readonly head: Promise<{ tree: ObjectId }> },
): Promise<FoundTree> {
  for (let attempt = 1; ; attempt++) {
    const data = copyIndex(repo, gitDir)
    const looking = differences(scratch, [...o.exclude, o.scratch])
    // Meanwhile git looks at the files.
    const digest = data && sha256Hex(data)
    const isWhole = digest !== undefined && o.isWholeIndex?.(digest) === true
    const index = data && !isWhole ? readIndex(data) : undefined
    const [all, { links, notes }] = await Promise.all([
      looking,
      isWhole ? NO_LINKS : index ? linksOf(index.links) : submoduleLinks(scratch),
    ])
    if (attempt === 1) {
      const read = (): ReadIndex | undefined => index ?? (data && readIndex(data))
      const isListed = digest !== undefined && (isWhole || index !== undefined)
      o.onListed?.(isListed ? workingList(repo, { digest, read }, all, o.exclude) : undefined)
    }
    const found = await withoutFiltered(scratch, o.settings, all)
    checkFiles(repo.root, found.present)
    // The tree of the commit is there, with all that is in it.
    const cached = data && found.present.length + found.gone.length === 0 && cachedTree(data)
    if (cached && cached === (await o.head).tree)
      return { tree: cached, links, notes: [...notes, ...found.notes] }
    try {
      const refused = await record(scratch, found)
      const tree = (await must(['write-tree', '--missing-ok'], scratch)).stdout.toString('latin1').trim()
      return { tree, links, notes: [...notes, ...found.notes, ...refused] }
    } catch (error) {
      if (attempt >= MOST_LOOKS || !isAgentPodError(error) || error.reason !== 'git.failed') throw error
    }
  }
}

/** Updates the copy of the index from the files. Returns a note for each name that git refuses. */
async function record(scratch: GitOptions, { present, gone }: Differences): Promise<string[]> {
  if (gone.length > 0) {
    const lines = gone.map((name) => `0 ${'0'.repeat(40)}\t${name}\0`)
    await must(['update-index', '-z', '--index-info'], { ...scratch, input: bytesOf(lines.join('')) })
  }
  if (present.length === 0) return []
  const args = ['update-index', '--add', '--remove', '--replace', '-z', '--stdin']
  const answer = await git(args, { ...scratch, input: nulTerminated(present) })
  if (/Permission denied/.test(answer.stderr))
    throw unreadable(/open\("(.*?)"\)/.exec(answer.stderr)?.[1] ?? 'a file', {
      name: '',
      message: '',
      code: 'EACCES',
    })
  if (answer.exitCode !== 0) throw diskFull(answer.stderr) ?? gitFailed(args, answer)
  return [...answer.stderr.matchAll(/^Ignoring path (.*)$/gm)].map(
    ([, name]) =>
      `${displayName(Buffer.from(name ?? '').toString('latin1'))} was left out: git does not allow this name`,
  )
}

const KINDS: Readonly<Record<string, CommandChange['kind']>> = {
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

/** A partial clone may lack objects that git would fetch on demand; AgentPod does not fetch. */
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
    message: `the repository is a partial clone and lacks ${missing} of the objects that are needed`,
    hint: 'fetch them: git fetch --refetch --no-filter origin',
  })
}

function lfsNote(root: string): string[] {
  const path = join(root, '.gitattributes')
  const info = look(path)
  if (!info?.isFile() || info.size > MOST_ATTRIBUTES_BYTES) return []
  const isUsed = /\bfilter=lfs\b/.test(readFileSync(path, 'utf8'))
  return isUsed ? ['Git LFS files are copied as pointers, as they are committed'] : []
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
    message: `${root} has no commit, so --clean leaves nothing to copy`,
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
