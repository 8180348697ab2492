/** Runs the gate on a received result: reads the contents that the gate needs, within limits. */
import { relative, resolve } from 'node:path'
import { bareRepositories, isHeadName } from '../../bare-repository.ts'
import { type ByteName, byteNames, bytesOf, displayName } from '../plumbing/byte-names.ts'
import { LINK_MODE, type TreeChange } from '../plumbing/compare-trees.ts'
import { type GitOptions, git } from '../plumbing/git.ts'
import { readObjects } from '../plumbing/objects.ts'
import { userGit } from '../plumbing/quarantine.ts'
import { OBJECT_ID, type ObjectId, type Repository } from '../plumbing/repository.ts'
import {
  type GateChange,
  type GatedFile,
  type GateInput,
  gateOf,
  isScript,
  mayName,
  namedShells,
  ruleFor,
} from './gate.ts'

const LARGEST_READ = 512 * 1024
const MOST_READ_IN_ALL = 64 * 1024 * 1024
const MOST_STANDING = 5000
const MOST_ROUNDS = 4
const MOST_CLASHES = 20

export async function gateResult(
  o: GitOptions,
  changes: readonly TreeChange[],
  context: GateContext,
): Promise<{ readonly gate: GatedFile[]; readonly notes: string[] }> {
  if (changes.length === 0) return { gate: [], notes: [] }
  const { hooksPath, leaves } = context
  const gateChanges = changes.map(({ path, before, after }) => ({
    path,
    before: before?.mode,
    after: after?.mode,
  }))
  const texts = new Texts(o, leaves)
  await texts.readBefore(changes.filter(({ path }) => ruleFor(path, hooksPath)))
  // Files that decide are read first, so that other files cannot use up the limits.
  const isFirst = (change: GateChange): boolean =>
    ruleFor(change.path, hooksPath) !== undefined || change.after === LINK_MODE || isHeadName(change.path)
  await texts.read(gateChanges.filter(isFirst).map(({ path }) => path))
  await texts.read(['package.json'])
  const input: GateInput = {
    changes: gateChanges,
    before: texts.before,
    after: texts.after,
    standing: [],
    hooksPath,
    repositories: bareRepositories(leaves.keys()),
  }
  // Unchanged files matter for the changed scripts that they name.
  const standing = gateChanges.some(isScript) ? await standingFiles(input, texts, [...leaves.keys()]) : []
  await texts.read(gateChanges.filter(isScript).map(({ path }) => path))
  return { gate: gateOf({ ...input, standing }), notes: clashNotes(changes, leaves) }
}

/** What the gate has to know about the user's git and about the whole tree of a result. */
export interface GateContext {
  /** The directory that the user's git takes hooks from, relative to the project. */
  readonly hooksPath: string | undefined
  /** Every file of the tree. */
  readonly leaves: ReadonlyMap<string, ObjectId>
}

export async function readGateContext(repo: Repository, o: GitOptions, tree: ObjectId): Promise<GateContext> {
  const [hooksPath, leaves] = await Promise.all([hooksPathOf(repo), leavesOf(o, tree)])
  return { hooksPath, leaves }
}

/** Unchanged files that run on their own, and the scripts that they run. */
async function standingFiles(input: GateInput, texts: Texts, paths: readonly string[]): Promise<string[]> {
  const changed = new Set(input.changes.map(({ path }) => path))
  const unchanged = paths.filter((path) => !changed.has(path))
  const found = new Set(unchanged.filter((path) => mayName(path, input.hooksPath)).slice(0, MOST_STANDING))
  let last = [...found]
  for (let round = 0; round < MOST_ROUNDS && last.length > 0; round++) {
    await texts.read(last)
    last = namedShells(last, input, unchanged).filter((path) => !found.has(path))
    for (const path of last) found.add(path)
  }
  return [...found]
}

/** Contents of files, each read once and within limits. */
class Texts {
  readonly #o: GitOptions
  readonly #leaves: ReadonlyMap<string, ObjectId>
  readonly #before = new Map<string, string>()
  readonly #after = new Map<string, string>()
  #left = MOST_READ_IN_ALL

  constructor(o: GitOptions, leaves: ReadonlyMap<string, ObjectId>) {
    this.#o = o
    this.#leaves = leaves
  }

  readonly before = (path: string): string | undefined => this.#before.get(path)
  readonly after = (path: string): string | undefined => this.#after.get(path)

  readBefore(changes: readonly TreeChange[]): Promise<void> {
    return this.#read(new Map(changes.map(({ path, before }) => [path, before?.id ?? ''])), this.#before)
  }

  read(paths: readonly string[]): Promise<void> {
    const wanted = paths.filter((path) => !this.#after.has(path))
    return this.#read(new Map(wanted.map((path) => [path, this.#leaves.get(path) ?? ''])), this.#after)
  }

  async #read(ids: ReadonlyMap<string, ObjectId>, to: Map<string, string>): Promise<void> {
    const wanted = [...ids.values()].filter((id) => id !== '')
    if (wanted.length === 0) return
    const limits = { type: 'blob', mostBytes: LARGEST_READ, mostBytesInAll: this.#left }
    const contents = await readObjects(this.#o, wanted, limits)
    for (const [path, id] of ids) {
      const content = contents.get(id)
      if (!content) continue
      to.set(path, content.toString('utf8'))
      this.#left -= content.length
    }
  }
}

/** Every file of a tree. A name that is not UTF-8 cannot be named by another file. */
async function leavesOf(o: GitOptions, tree: ObjectId): Promise<ReadonlyMap<string, ObjectId>> {
  const { stdout } = await git(['ls-tree', '-r', '-z', '--full-tree', tree], o)
  return new Map(
    byteNames(stdout).map((line) => {
      const at = line.indexOf('\t')
      const id = line.slice(Math.max(at - ID_LENGTH, 0), Math.max(at, 0))
      return [textOf(line.slice(at + 1)), OBJECT_ID.test(id) ? id : '']
    }),
  )
}

const ID_LENGTH = 40

/** Most names are ASCII, and are their own text. */
function textOf(name: ByteName): string {
  return /[^\0-\x7f]/.test(name) ? bytesOf(name).toString('utf8') : name
}

/** Undefined if hooks do not come from the project. */
async function hooksPathOf(repo: Repository): Promise<string | undefined> {
  // Our own setting, which turns hooks off, comes after the user's.
  const answer = await git(['config', '--get-all', '--type=path', 'core.hooksPath'], userGit(repo))
  const users = answer.stdout
    .toString('utf8')
    .split('\n')
    .filter((line) => line !== '' && line !== '/dev/null')
  const path = users.at(-1)
  if (path === undefined) return undefined
  const inside = relative(repo.root, resolve(repo.root, path))
  return inside === '' || inside.startsWith('..') ? undefined : inside
}

/** Names that are the same on a case-insensitive disk: a checkout there has only one of them. */
function clashNotes(changes: readonly TreeChange[], leaves: ReadonlyMap<string, ObjectId>): string[] {
  // A directory is new if a file in it is.
  const added = new Set(
    changes
      .filter(({ before, after }) => !before && after)
      .flatMap(({ path }) => [...path.matchAll(/\/|$/g)].map(({ index }) => path.slice(0, index))),
  )
  if (added.size === 0) return []
  const seen = new Map<string, string>()
  const notes: string[] = []
  for (const path of leaves.keys()) {
    for (let end = path.indexOf('/'); ; end = path.indexOf('/', end + 1)) {
      const part = end < 0 ? path : path.slice(0, end)
      const key = part.normalize('NFC').toLowerCase()
      const other = seen.get(key)
      if (other === undefined) seen.set(key, part)
      else if (other !== part && (added.has(part) || added.has(other)) && notes.length < MOST_CLASHES)
        notes.push(
          `${shownText(part)} and ${shownText(other)} are the same name on a case-insensitive file system`,
        )
      if (end < 0) break
    }
  }
  return [...new Set(notes)]
}

function shownText(text: string): string {
  return displayName(Buffer.from(text).toString('latin1'))
}
