/**
 * Shows the changes between two trees. SECURITY: no program of the repository runs, and no output is
 * interpreted by a terminal (GT-04).
 */

import { showHiddenInLines } from '../../../util/hidden-characters.ts'
import { byteNames } from './byte-names.ts'
import { compareTrees, FILE_MODE, type TreeChange } from './compare-trees.ts'
import { type GitOptions, git, gitFailed } from './git.ts'
import type { ObjectId } from './repository.ts'

const MOST_DIFF_BYTES = 64 * 1024 * 1024
const COUNT_MS = 60_000

export interface ChangedFile {
  readonly path: string
  readonly kind: 'added' | 'modified' | 'deleted' | 'type changed'
  /** In git's notation; for a deleted file the mode that it had. */
  readonly mode: string
  /** Lines; undefined if the file is not text or could not be counted. */
  readonly added: number | undefined
  readonly removed: number | undefined
}

export interface DiffOptions {
  /** A table of files and counts instead of the diff. */
  readonly stat?: boolean | undefined
  readonly color?: boolean | undefined
  /** Only these files and directories; empty means all. */
  readonly paths?: readonly string[] | undefined
}

/** `o` runs git in a quarantine or is `userGit`. `known` are the changes, if they were compared already. */
export async function changesOf(
  o: GitOptions,
  from: ObjectId,
  to: ObjectId,
  known?: readonly TreeChange[],
): Promise<ChangedFile[]> {
  const changes = known ?? (await compareTrees(o, from, to))
  const counts = changes.length === 0 ? new Map<string, Counts>() : await countLines(o, from, to)
  return changes.map(({ path, raw, before, after }) => ({
    path,
    kind: kindOf(before?.mode, after?.mode),
    mode: after?.mode ?? before?.mode ?? FILE_MODE,
    added: counts.get(raw)?.added,
    removed: counts.get(raw)?.removed,
  }))
}

function kindOf(before: string | undefined, after: string | undefined): ChangedFile['kind'] {
  if (before === undefined) return 'added'
  if (after === undefined) return 'deleted'
  return before.slice(0, 3) === after.slice(0, 3) ? 'modified' : 'type changed'
}

interface Counts {
  readonly added: number
  readonly removed: number
}

/** Git prints a dash for binary files. If git takes too long, there are no counts. */
async function countLines(o: GitOptions, from: ObjectId, to: ObjectId): Promise<ReadonlyMap<string, Counts>> {
  const args = ['diff-tree', '-r', '-z', '--numstat', '--no-renames', '--no-ext-diff', '--no-textconv']
  const answer = await git([...args, from, to, '--'], { ...o, timeoutMs: COUNT_MS })
  const found = new Map<string, Counts>()
  for (const record of byteNames(answer.stdout)) {
    const [, added, removed, name] = /^(\d+)\t(\d+)\t(.+)$/s.exec(record) ?? []
    if (name !== undefined) found.set(name, { added: Number(added), removed: Number(removed) })
  }
  return found
}

/** Safe to print as it is. */
export async function diffOf(
  o: GitOptions,
  from: ObjectId,
  to: ObjectId,
  { stat = false, color = false, paths = [] }: DiffOptions = {},
): Promise<string> {
  const form = stat ? ['--stat=100', '--summary'] : ['-p', '--full-index']
  const args = ['diff-tree', '-r', '-M', '--no-color', '--no-ext-diff', '--no-textconv', ...form, from, to]
  const answer = await git([...args, '--', ...paths.map((path) => `:(top,literal)${path}`)], {
    ...o,
    maxBytes: MOST_DIFF_BYTES,
    settings: [...(o.settings ?? []), 'core.quotePath=false'],
  })
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  const text = showHiddenInLines(answer.stdout.toString('utf8'))
  return color && !stat ? text.split('\n').map(colored).join('\n') : text
}

const COLORS: readonly (readonly [RegExp, string])[] = [
  [/^(?:diff --git |index |--- |\+\+\+ |new file|deleted file|old mode|new mode|rename |similarity )/, '1'],
  [/^@@/, '36'],
  [/^\+/, '32'],
  [/^-/, '31'],
]

function colored(line: string): string {
  const color = COLORS.find(([begin]) => begin.test(line))?.[1]
  return color === undefined ? line : `\x1b[${color}m${line}\x1b[m`
}
