/** What changed between two trees, for people. SECURITY: no program has a part in it, and a terminal obeys nothing of it (GT-04). */
import { type GitOptions, git, gitFailed } from './git.ts'
import { byteNames } from './names.ts'
import type { ObjectId } from './repository.ts'
import { compareTrees, FILE_MODE, type TreeChange } from './tree-changes.ts'

const MOST_DIFF_BYTES = 64 * 1024 * 1024
const COUNT_MS = 60_000

export interface FileChange {
  readonly path: string
  readonly kind: 'added' | 'modified' | 'deleted' | 'type changed'
  /** As git writes it; of a deleted file, the one it had. */
  readonly mode: string
  /** Lines; undefined where the file is not text, or nobody could count. */
  readonly added: number | undefined
  readonly removed: number | undefined
}

export interface DiffOptions {
  /** A table of files and counts instead of the lines. */
  readonly stat?: boolean | undefined
  readonly color?: boolean | undefined
  /** Only these, each a file or a directory; none: all. */
  readonly paths?: readonly string[] | undefined
}

/** `o` is a quarantine's, or `userGit`'s. `known` spares comparing again. */
export async function changesOf(
  o: GitOptions,
  from: ObjectId,
  to: ObjectId,
  known?: readonly TreeChange[],
): Promise<FileChange[]> {
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

function kindOf(before: string | undefined, after: string | undefined): FileChange['kind'] {
  if (before === undefined) return 'added'
  if (after === undefined) return 'deleted'
  return before.slice(0, 3) === after.slice(0, 3) ? 'modified' : 'type changed'
}

interface Counts {
  readonly added: number
  readonly removed: number
}

/** A dash stands for what is not text. Where git takes too long, nobody counts. */
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
  const text = visible(answer.stdout.toString('utf8'))
  return color && !stat ? text.split('\n').map(colored).join('\n') : text
}

/** Characters that a terminal obeys, or that make text read other than it is. */
const OBEYED =
  /[\p{Cc}\p{Zl}\p{Zp}\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu

/** Line ends and tabs stay; what else a terminal would obey is spelt out. */
export function visible(text: string): string {
  return text.replaceAll(OBEYED, (char) => {
    const code = char.codePointAt(0) ?? 0
    if (char === '\n' || char === '\t') return char
    if (code < 0x20) return `^${String.fromCharCode(code + 0x40)}`
    return code === 0x7f ? '^?' : `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`
  })
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
