/** Looking for lines in a project's files, with their numbers. */
import type { Evidence } from '../evidence.ts'
import type { FileTree } from '../tree.ts'
import { plainText, short } from './reading.ts'

export interface Line {
  readonly text: string
  /** From one. */
  readonly number: number
}

export interface Sought {
  readonly match: RegExpExecArray
  readonly line: number
}

/** What is longer is no line that a person wrote, and patterns are spared of it. */
const LONGEST_LINE = 2000
/** A file of a megabyte has far fewer, unless they are empty. */
const MOST_LINES = 100_000

export function linesOf(text: string): readonly Line[] {
  const lines = text.split('\n', MOST_LINES)
  return lines.map((line, index) => ({ text: line.slice(0, LONGEST_LINE), number: index + 1 }))
}

/** The lines of a file; none where it cannot be read. */
export function linesIn(tree: FileTree, path: string): readonly Line[] {
  return tree.readAs(path, plainLines) ?? []
}

function plainLines(raw: string): readonly Line[] {
  return linesOf(plainText(raw))
}

/** The first line that a pattern without flags matches. */
export function seek(lines: readonly Line[], pattern: RegExp): Sought | undefined {
  for (const { text, number } of lines) {
    const match = pattern.exec(text)
    if (match) return { match, line: number }
  }
  return undefined
}

/** Every line that a pattern without flags matches. */
export function seekAll(lines: readonly Line[], pattern: RegExp): readonly Sought[] {
  return lines.flatMap(({ text, number }) => {
    const match = pattern.exec(text)
    return match ? [{ match, line: number }] : []
  })
}

/** A place in a file with what it says there. */
export function evidenceAt(file: string, line: number | undefined, said: string): Evidence {
  return { file, ...(line !== undefined && { line }), said: short(said) }
}
