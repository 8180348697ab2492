/** Finds lines in a project's files, with their numbers. */
import type { Evidence } from '../../evidence.ts'
import type { FileTree } from '../../file-tree.ts'
import { normalizeText, shortQuote } from './parsed-file.ts'

export interface FileLine {
  readonly text: string
  /** Counted from 1. */
  readonly number: number
}

export interface LineMatch {
  readonly match: RegExpExecArray
  readonly line: number
}

/** Longer lines are generated; patterns only see their start. */
const LONGEST_LINE = 2000
/** A file of a megabyte has far fewer, unless they are empty. */
const MOST_LINES = 100_000

export function linesOf(text: string): readonly FileLine[] {
  const lines = text.split('\n', MOST_LINES)
  return lines.map((line, index) => ({ text: line.slice(0, LONGEST_LINE), number: index + 1 }))
}

/** The lines of a file; empty if it cannot be read. */
export function linesIn(tree: FileTree, path: string): readonly FileLine[] {
  return tree.readAs(path, plainLines) ?? []
}

function plainLines(raw: string): readonly FileLine[] {
  return linesOf(normalizeText(raw))
}

/** The first line that a pattern without flags matches. */
export function findLine(lines: readonly FileLine[], pattern: RegExp): LineMatch | undefined {
  for (const { text, number } of lines) {
    const match = pattern.exec(text)
    if (match) return { match, line: number }
  }
  return undefined
}

/** Every line that a pattern without flags matches. */
export function findLines(lines: readonly FileLine[], pattern: RegExp): readonly LineMatch[] {
  return lines.flatMap(({ text, number }) => {
    const match = pattern.exec(text)
    return match ? [{ match, line: number }] : []
  })
}

/** Evidence at a line of a file. */
export function evidenceAt(file: string, line: number | undefined, said: string): Evidence {
  return { file, ...(line !== undefined && { line }), said: shortQuote(said) }
}
