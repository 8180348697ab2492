/** Compares two trees, path by path, without running any program or reading any setting of the user. */
import { isUtf8 } from 'node:buffer'
import { AgentPodError } from '../../../core/error.ts'
import { type ByteName, bytesOf } from './byte-names.ts'
import type { GitOptions } from './git.ts'
import { type Leaf, readTrees, type TreeEntry } from './objects.ts'
import type { ObjectId } from './repository.ts'

const MOST_CHANGES = 200_000
const DEEPEST = 128

export const LINK_MODE = '120000'
export const SUBMODULE_MODE = '160000'
export const EXECUTABLE_MODE = '100755'
export const FILE_MODE = '100644'

export interface TreeChange {
  /** If `isText` is false, this only resembles the name. */
  readonly path: string
  readonly raw: ByteName
  readonly isText: boolean
  readonly before: Leaf | undefined
  readonly after: Leaf | undefined
}

/**
 * Called for each directory that differs, before its entries are used. Throws if the directory is not
 * acceptable.
 */
export type InspectDirectory = (
  directory: string,
  entries: readonly TreeEntry[],
  before: ReadonlyMap<string, TreeEntry>,
) => void

interface Pair {
  readonly prefix: string
  readonly from: ObjectId | undefined
  readonly to: ObjectId | undefined
}

/**
 * Changes in the order of their paths. Directories are compared level by level, with one call of git per
 * level.
 */
export async function compareTrees(
  o: GitOptions,
  from: ObjectId,
  to: ObjectId,
  inspect: InspectDirectory = () => undefined,
): Promise<TreeChange[]> {
  const changes: TreeChange[] = []
  let pairs: Pair[] = from === to ? [] : [{ prefix: '', from, to }]
  for (let depth = 0; pairs.length > 0; depth++) {
    if (depth > DEEPEST) throw tooMuch('its directories are nested too deeply')
    const trees = await readTrees(
      o,
      pairs.flatMap((pair) => [pair.from, pair.to]).filter((id) => id !== undefined),
    )
    const next: Pair[] = []
    for (const pair of pairs) {
      const before = byName(pair.from === undefined ? [] : (trees.get(pair.from) ?? []))
      const entries = pair.to === undefined ? [] : (trees.get(pair.to) ?? [])
      inspect(pair.prefix, entries, before)
      compare(pair.prefix, before, byName(entries), changes, next)
      // SECURITY: a small tree can expand to very many paths, by naming the same subtree many times on each
      // level.
      if (changes.length + next.length > MOST_CHANGES) throw tooMuch('it changes too many files')
    }
    pairs = next
  }
  return changes.sort((a, b) => (a.raw < b.raw ? -1 : 1))
}

function byName(entries: readonly TreeEntry[]): Map<string, TreeEntry> {
  return new Map(entries.map((entry) => [entry.name, entry]))
}

function compare(
  prefix: string,
  before: ReadonlyMap<string, TreeEntry>,
  after: ReadonlyMap<string, TreeEntry>,
  changes: TreeChange[],
  next: Pair[],
): void {
  for (const name of new Set([...before.keys(), ...after.keys()])) {
    const [was, is] = [before.get(name), after.get(name)]
    if (was?.id === is?.id && was && is && modeOf(was) === modeOf(is)) continue
    const raw = `${prefix}${name}`
    const pair = { from: was?.isTree ? was.id : undefined, to: is?.isTree ? is.id : undefined }
    if (pair.from !== undefined || pair.to !== undefined) next.push({ prefix: `${raw}/`, ...pair })
    const leaves = { before: leafOf(was), after: leafOf(is) }
    if (leaves.before || leaves.after) changes.push({ ...textOf(raw), raw, ...leaves })
  }
}

function leafOf(entry: TreeEntry | undefined): Leaf | undefined {
  return entry && !entry.isTree ? { mode: modeOf(entry), id: entry.id } : undefined
}

/** Old trees have modes that git reads as one of those it writes today. */
function modeOf({ mode }: TreeEntry): string {
  if (!mode.startsWith('100')) return mode
  return (Number.parseInt(mode, 8) & 0o100) !== 0 ? EXECUTABLE_MODE : FILE_MODE
}

function textOf(raw: ByteName): { readonly path: string; readonly isText: boolean } {
  const bytes = bytesOf(raw)
  return { path: bytes.toString('utf8'), isText: isUtf8(bytes) }
}

function tooMuch(why: string): AgentPodError {
  return new AgentPodError({ code: 'resource_exhausted', reason: 'tree.too_large', message: why })
}
