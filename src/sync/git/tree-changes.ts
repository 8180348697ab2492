/** What is different between two trees, path by path, without any program or setting of the user's having a say in it. */
import { isUtf8 } from 'node:buffer'
import { AgentPodError } from '../../core/error.ts'
import type { GitOptions } from './git.ts'
import { type ByteName, bytesOf } from './names.ts'
import { type Entry, type Leaf, readTrees } from './objects.ts'
import type { ObjectId } from './repository.ts'

const MOST_CHANGES = 200_000
const DEEPEST = 128

export const LINK_MODE = '120000'
export const SUBMODULE_MODE = '160000'
export const EXECUTABLE_MODE = '100755'
export const FILE_MODE = '100644'

export interface TreeChange {
  /** Where `isText` is false, something like its name and not the name itself. */
  readonly path: string
  readonly raw: ByteName
  readonly isText: boolean
  readonly before: Leaf | undefined
  readonly after: Leaf | undefined
}

/** Looks at a directory of the second tree that is not as in the first, before anything of it is used; throws where it is not there. */
export type Inspect = (
  directory: string,
  entries: readonly Entry[],
  before: ReadonlyMap<string, Entry>,
) => void

interface Pair {
  readonly prefix: string
  readonly from: ObjectId | undefined
  readonly to: ObjectId | undefined
}

/** In the order of their paths. Directories are compared level by level, with one question to git for each. */
export async function compareTrees(
  o: GitOptions,
  from: ObjectId,
  to: ObjectId,
  inspect: Inspect = () => undefined,
): Promise<TreeChange[]> {
  const changes: TreeChange[] = []
  let pairs: Pair[] = from === to ? [] : [{ prefix: '', from, to }]
  for (let depth = 0; pairs.length > 0; depth++) {
    if (depth > DEEPEST) throw tooMuch('its directories are too deep')
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
      // SECURITY: a tree may hold itself a thousand times, each with a thousand more below.
      if (changes.length + next.length > MOST_CHANGES) throw tooMuch('it changes too many files')
    }
    pairs = next
  }
  return changes.sort((a, b) => (a.raw < b.raw ? -1 : 1))
}

function byName(entries: readonly Entry[]): Map<string, Entry> {
  return new Map(entries.map((entry) => [entry.name, entry]))
}

function compare(
  prefix: string,
  before: ReadonlyMap<string, Entry>,
  after: ReadonlyMap<string, Entry>,
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

function leafOf(entry: Entry | undefined): Leaf | undefined {
  return entry && !entry.isTree ? { mode: modeOf(entry), id: entry.id } : undefined
}

/** Trees of long ago hold modes that git reads as one of those it writes today. */
function modeOf({ mode }: Entry): string {
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
