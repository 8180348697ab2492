/** What has to be done to a working tree so that it has the changes between two trees, found out before anything is done. */
import { createHash } from 'node:crypto'
import { dirname } from 'node:path/posix'
import type { GitOptions } from './git.ts'
import type { ByteName } from './names.ts'
import { type Leaf, readObjects } from './objects.ts'
import type { ObjectId } from './repository.ts'
import { EXECUTABLE_MODE, LINK_MODE, SUBMODULE_MODE, type TreeChange } from './tree-changes.ts'
import { ABSENT, type Seen, type WorkTree } from './work-tree.ts'

/** What the gate of results lets through, and more is not compared. */
export const LARGEST_FILE = 128 * 1024 * 1024
const MOST_IN_THE_WAY = 10_000

/** What becomes of one file. `content` is an object's, or what two people's changes came to together. */
export interface Step {
  readonly path: string
  readonly seen: Seen
  readonly kind: 'write' | 'merge' | 'link' | 'remove'
  readonly content: ObjectId | Buffer
  readonly mode: number
  /** The file has line ends of another system, and keeps them. */
  readonly hasReturns: boolean
}

export interface Conflict {
  readonly path: string
  readonly why: string
}

export interface Plan {
  readonly steps: readonly Step[]
  /** As they are to be already. */
  readonly already: readonly string[]
  readonly conflicts: readonly Conflict[]
}

/** Brings together three versions of a text; undefined where they do not go together. */
export type Merge = (mine: Buffer, base: Buffer, theirs: Buffer) => Promise<Buffer | undefined>

export interface PlanOptions {
  readonly tree: WorkTree
  readonly git: GitOptions
  readonly changes: readonly TreeChange[]
  /** Versions of files that may be replaced as well as those of before. */
  readonly also?: ReadonlyMap<ByteName, Leaf | undefined> | undefined
  /** Without it, a file that is neither as before nor as after is a conflict. */
  readonly merge?: Merge | undefined
}

export async function planChanges(o: PlanOptions): Promise<Plan> {
  const found = o.changes.map((change) => ({ change, seen: o.tree.look(change.path) }))
  const leaving = new Set(
    found.filter(({ change }) => change.after === undefined).map(({ change }) => change.path),
  )
  const plan = { steps: [] as Step[], already: [] as string[], conflicts: [] as Conflict[] }
  for (const one of found) {
    const { path } = one.change
    const outcome = await decide(o, one.change, makeRoom(o.tree, path, one.seen, leaving))
    if (outcome === 'already') plan.already.push(path)
    else if (typeof outcome === 'string') plan.conflicts.push({ path, why: outcome })
    else plan.steps.push(outcome)
  }
  return plan
}

/** A directory that becomes a file, or the other way round, is not in the way if all that is in it goes. */
function makeRoom(tree: WorkTree, path: string, seen: Seen, leaving: ReadonlySet<string>): Seen {
  if (seen.kind === 'blocked' && leaving.has(seen.at)) return ABSENT
  if (seen.kind === 'directory' && isLeaving(tree, path, leaving)) return ABSENT
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

/** A step, or `already`, or why there is a conflict. */
async function decide(o: PlanOptions, change: TreeChange, seen: Seen): Promise<Step | string> {
  const { path, before, after, isText } = change
  if (!isText) return 'its name is not UTF-8'
  if (before?.mode === SUBMODULE_MODE || after?.mode === SUBMODULE_MODE) return 'it is a submodule'
  if (seen.kind === 'blocked') return seen.at === path ? 'it is no plain file' : `${seen.at} is in its way`
  if (seen.kind === 'directory') return 'a directory is in its way'
  if (seen.kind === 'absent') {
    if (after === undefined) return 'already'
    const isNew = before === undefined || (o.also?.has(change.raw) && !o.also.get(change.raw))
    return isNew ? stepFor(change, seen) : 'it was removed here'
  }
  const content = seen.kind === 'link' ? seen.target : o.tree.read(path, seen, LARGEST_FILE)
  if (content === undefined) return 'it changes while it is read, or is too large to compare'
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
    ? 'you have a file of this name that the run did not see'
    : 'it was changed here'
}

function stepFor(
  { path, before, after }: TreeChange,
  seen: Seen,
  { hasReturns = false, content }: { hasReturns?: boolean; content?: Buffer | undefined } = {},
): Step {
  const common = { path, seen, hasReturns, mode: modeFor(seen, before?.mode, after?.mode) }
  if (after === undefined) return { ...common, kind: 'remove', content: '' }
  if (after.mode === LINK_MODE) return { ...common, kind: 'link', content: after.id }
  return content ? { ...common, kind: 'merge', content } : { ...common, kind: 'write', content: after.id }
}

async function mergeStep(
  o: PlanOptions,
  change: TreeChange,
  seen: Seen,
  mine: Buffer,
  hasReturns: boolean,
): Promise<Step | string> {
  const { before, after } = change
  const clash = 'it was changed here, and the changes do not go together'
  if (!o.merge || !after) return 'it was changed here'
  // What is here is most likely on top of what was applied last.
  for (const base of [o.also?.get(change.raw), before]) {
    const content = base && (await mergeOn(o, mine, base, after))
    if (content) return stepFor(change, seen, { hasReturns, content })
  }
  return clash
}

async function mergeOn(o: PlanOptions, mine: Buffer, before: Leaf, after: Leaf): Promise<Buffer | undefined> {
  const limits = { type: 'blob', mostBytes: LARGEST_FILE, mostBytesInAll: 2 * LARGEST_FILE }
  const contents = await readObjects(o.git, [before.id, after.id], limits)
  const [base, theirs] = [contents.get(before.id), contents.get(after.id)]
  if (!base || !theirs || [mine, base, theirs].some((text) => text.includes(0))) return undefined
  return o.merge?.(mine, base, theirs)
}

/** Permissions are the user's; whether it may be run is the change's where it changes that, or where the file is new. */
function modeFor(seen: Seen, before: string | undefined, after: string | undefined): number {
  const isRun = after === EXECUTABLE_MODE
  if (seen.kind !== 'file') return isRun ? 0o777 : 0o666
  if (before === after) return seen.mode
  return isRun ? seen.mode | ((seen.mode & 0o444) >> 2) : seen.mode & ~0o111
}

function hasMode(seen: Seen, mode: string): boolean {
  return seen.kind !== 'file' || ((seen.mode & 0o100) !== 0) === (mode === EXECUTABLE_MODE)
}

export function blobId(content: Buffer): ObjectId {
  return createHash('sha1').update(`blob ${content.length}\0`).update(content).digest('hex')
}

/** As git has a text whose lines end as on other systems; undefined where this is none. */
function withoutReturns(content: Buffer): Buffer | undefined {
  if (!content.includes('\r\n') || content.includes(0)) return undefined
  return Buffer.from(content.toString('latin1').replaceAll('\r\n', '\n'), 'latin1')
}

const POINTER =
  /^version https:\/\/git-lfs\.github\.com\/spec\/v1\n(?:ext-[^\n]*\n){0,10}oid sha256:([0-9a-f]{64})\nsize \d{1,16}\n/

/** Whether the object stands for this content, as Git LFS has it. */
async function isPointedAt(git: GitOptions, id: ObjectId, content: Buffer): Promise<boolean> {
  const pointer = (await readObjects(git, [id], { type: 'blob', mostBytes: 1024, mostBytesInAll: 1024 })).get(
    id,
  )
  const digest = POINTER.exec(pointer?.toString('latin1') ?? '')?.[1]
  return digest !== undefined && createHash('sha256').update(content).digest('hex') === digest
}

/** Directories first seen last go first, so that those above them are empty when their turn comes. */
export function inOrder(steps: readonly Step[]): Step[] {
  const removals = steps.filter(({ kind }) => kind === 'remove')
  const others = steps.filter(({ kind }) => kind !== 'remove')
  return [...removals.toSorted((a, b) => dirname(b.path).length - dirname(a.path).length), ...others]
}
