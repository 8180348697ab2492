/** Plans how to apply the changes between two trees to a working tree, before anything is written. */
import { createHash } from 'node:crypto'
import { dirname } from 'node:path/posix'
import type { ByteName } from '../plumbing/byte-names.ts'
import { EXECUTABLE_MODE, LINK_MODE, SUBMODULE_MODE, type TreeChange } from '../plumbing/compare-trees.ts'
import type { GitOptions } from '../plumbing/git.ts'
import { type Leaf, readObjects } from '../plumbing/objects.ts'
import type { ObjectId } from '../plumbing/repository.ts'
import { ABSENT_PATH, type SeenPath, type WorkTree } from './work-tree.ts'

/** The size limit of a result's file; larger files are not compared. */
export const LARGEST_FILE = 128 * 1024 * 1024
const MOST_IN_THE_WAY = 10_000

/** What is done to one file. `content` is an object id, or the merged text. */
export interface ApplyStep {
  readonly path: string
  readonly seen: SeenPath
  readonly kind: 'write' | 'merge' | 'link' | 'remove'
  readonly content: ObjectId | Buffer
  readonly mode: number
  /** The file has CRLF line endings and keeps them. */
  readonly hasReturns: boolean
}

export interface Conflict {
  readonly path: string
  readonly why: string
}

export interface ApplyPlan {
  readonly steps: readonly ApplyStep[]
  /** Paths that already have the new content. */
  readonly already: readonly string[]
  readonly conflicts: readonly Conflict[]
}

/** Merges three versions of a text; undefined if they conflict. */
export type MergeTexts = (mine: Buffer, base: Buffer, theirs: Buffer) => Promise<Buffer | undefined>

export interface ApplyPlanOptions {
  readonly tree: WorkTree
  readonly git: GitOptions
  readonly changes: readonly TreeChange[]
  /** Further versions of files that may be replaced, besides the old ones. */
  readonly also?: ReadonlyMap<ByteName, Leaf | undefined> | undefined
  /** Without it, a file that has neither the old nor the new content is a conflict. */
  readonly merge?: MergeTexts | undefined
}

export async function planChanges(o: ApplyPlanOptions): Promise<ApplyPlan> {
  const found = o.changes.map((change) => ({ change, seen: o.tree.look(change.path) }))
  const leaving = new Set(
    found.filter(({ change }) => change.after === undefined).map(({ change }) => change.path),
  )
  const plan = { steps: [] as ApplyStep[], already: [] as string[], conflicts: [] as Conflict[] }
  for (const one of found) {
    const { path } = one.change
    const outcome = await decide(o, one.change, makeRoom(o.tree, path, one.seen, leaving))
    if (outcome === 'already') plan.already.push(path)
    else if (typeof outcome === 'string') plan.conflicts.push({ path, why: outcome })
    else plan.steps.push(outcome)
  }
  return plan
}

/**
 * A directory that becomes a file, or a file that becomes a directory, is not in the way if everything in it
 * is removed.
 */
function makeRoom(tree: WorkTree, path: string, seen: SeenPath, leaving: ReadonlySet<string>): SeenPath {
  if (seen.kind === 'blocked' && leaving.has(seen.at)) return ABSENT_PATH
  if (seen.kind === 'directory' && isLeaving(tree, path, leaving)) return ABSENT_PATH
  return seen
}

function isLeaving(tree: WorkTree, directory: string, leaving: ReadonlySet<string>): boolean {
  const open = [directory]
  let count = 0
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    for (const name of tree.list(at)) {
      const path = `${at}/${name}`
      if (count++ > MOST_IN_THE_WAY) return false
      if (name === '.git') return false
      if (leaving.has(path)) continue
      if (tree.look(path).kind !== 'directory') return false
      open.push(path)
    }
  }
  return true
}

/** Returns a step, or `already`, or the reason for a conflict. */
async function decide(o: ApplyPlanOptions, change: TreeChange, seen: SeenPath): Promise<ApplyStep | string> {
  const { path, before, after, isText } = change
  if (!isText) return 'its name is not UTF-8'
  if (before?.mode === SUBMODULE_MODE || after?.mode === SUBMODULE_MODE) return 'it is a submodule'
  if (seen.kind === 'blocked')
    return seen.at === path ? 'it is not a regular file' : `${seen.at} is in the way`
  if (seen.kind === 'directory') return 'a directory is in the way'
  if (seen.kind === 'absent') {
    if (after === undefined) return 'already'
    const isNew = before === undefined || (o.also?.has(change.raw) && !o.also.get(change.raw))
    return isNew ? stepFor(change, seen) : 'you removed it'
  }
  const content = seen.kind === 'link' ? seen.target : o.tree.read(path, seen, LARGEST_FILE)
  if (content === undefined) return 'it changed while it was read, or is too large to compare'
  const id = blobId(content)
  const isLink = seen.kind === 'link'
  if (after && (after.mode === LINK_MODE) === isLink && after.id === id && hasMode(seen, after.mode))
    return 'already'
  const also = o.also?.get(change.raw)
  if (also && (also.mode === LINK_MODE) === isLink && also.id === id) return stepFor(change, seen)
  if (before && (before.mode === LINK_MODE) === isLink) {
    if (before.id === id || (await isPointedAt(o.git, before.id, content))) return stepFor(change, seen)
    const plain = isLink ? undefined : withoutReturns(content)
    if (plain && blobId(plain) === before.id) return stepFor(change, seen, { hasReturns: true })
    if (after && !isLink && after.mode !== LINK_MODE)
      return mergeStep(o, change, seen, plain ?? content, plain !== undefined)
  }
  if (before === undefined && also && after && !isLink && after.mode !== LINK_MODE)
    return mergeStep(
      o,
      change,
      seen,
      withoutReturns(content) ?? content,
      withoutReturns(content) !== undefined,
    )
  return before === undefined
    ? 'you have a file with this name that the run did not have'
    : 'you changed it too'
}

function stepFor(
  { path, before, after }: TreeChange,
  seen: SeenPath,
  { hasReturns = false, content }: { hasReturns?: boolean; content?: Buffer | undefined } = {},
): ApplyStep {
  const common = { path, seen, hasReturns, mode: modeFor(seen, before?.mode, after?.mode) }
  if (after === undefined) return { ...common, kind: 'remove', content: '' }
  if (after.mode === LINK_MODE) return { ...common, kind: 'link', content: after.id }
  return content ? { ...common, kind: 'merge', content } : { ...common, kind: 'write', content: after.id }
}

async function mergeStep(
  o: ApplyPlanOptions,
  change: TreeChange,
  seen: SeenPath,
  mine: Buffer,
  hasReturns: boolean,
): Promise<ApplyStep | string> {
  const { before, after } = change
  const clash = 'you changed it too, and the changes conflict'
  if (!o.merge || !after) return 'you changed it too'
  // The file most likely contains what was applied last.
  for (const base of [o.also?.get(change.raw), before]) {
    const content = base && (await mergeOn(o, mine, base, after))
    if (content) return stepFor(change, seen, { hasReturns, content })
  }
  return clash
}

async function mergeOn(
  o: ApplyPlanOptions,
  mine: Buffer,
  before: Leaf,
  after: Leaf,
): Promise<Buffer | undefined> {
  const limits = { type: 'blob', mostBytes: LARGEST_FILE, mostBytesInAll: 2 * LARGEST_FILE }
  const contents = await readObjects(o.git, [before.id, after.id], limits)
  const [base, theirs] = [contents.get(before.id), contents.get(after.id)]
  if (!base || !theirs || [mine, base, theirs].some((text) => text.includes(0))) return undefined
  return o.merge?.(mine, base, theirs)
}

/**
 * Keeps the user's permissions. The executable bit follows the change if the change sets it or the file is
 * new.
 */
function modeFor(seen: SeenPath, before: string | undefined, after: string | undefined): number {
  const isRun = after === EXECUTABLE_MODE
  if (seen.kind !== 'file') return isRun ? 0o777 : 0o666
  if (before === after) return seen.mode
  return isRun ? seen.mode | ((seen.mode & 0o444) >> 2) : seen.mode & ~0o111
}

function hasMode(seen: SeenPath, mode: string): boolean {
  return seen.kind !== 'file' || ((seen.mode & 0o100) !== 0) === (mode === EXECUTABLE_MODE)
}

export function blobId(content: Buffer): ObjectId {
  return createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex')
}

/** The text with LF line endings, as git stores it; undefined if it has no CRLF line endings. */
function withoutReturns(content: Buffer): Buffer | undefined {
  if (!content.includes('\r\n') || content.includes(0)) return undefined
  return Buffer.from(content.toString('latin1').replaceAll('\r\n', '\n'), 'latin1')
}

const POINTER =
  /^version https:\/\/git-lfs\.github\.com\/spec\/v1\n(?:ext-[^\n]*\n){0,10}oid sha256:([0-9a-f]{64})\nsize \d{1,16}\n/

/** Whether the object is a Git LFS pointer to this content. */
async function isPointedAt(git: GitOptions, id: ObjectId, content: Buffer): Promise<boolean> {
  const pointer = (await readObjects(git, [id], { type: 'blob', mostBytes: 1024, mostBytesInAll: 1024 })).get(
    id,
  )
  const digest = POINTER.exec(pointer?.toString('latin1') ?? '')?.[1]
  return digest !== undefined && createHash('sha256').update(content).digest('hex') === digest
}

/** Removals of deep paths come first, so that their parent directories are empty when they are removed. */
export function orderSteps(steps: readonly ApplyStep[]): ApplyStep[] {
  const removals = steps.filter(({ kind }) => kind === 'remove')
  const others = steps.filter(({ kind }) => kind !== 'remove')
  return [...removals.toSorted((a, b) => dirname(b.path).length - dirname(a.path).length), ...others]
}
