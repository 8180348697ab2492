/** Files of a project as data. They are other people's: whatever is wrong with one becomes a sentence, never an error. */
import { type ParseError, parse as parseJsonWithComments, printParseErrorCode } from 'jsonc-parser'
import { parse as parseToml } from 'smol-toml'
import type { Evidence } from '../evidence.ts'
import type { FileTree } from '../tree.ts'

export type Table = Readonly<Record<string, unknown>>

export interface Read {
  /** Without a byte order mark, and with plain line ends. */
  readonly text: string
  /** Empty where the file is malformed. */
  readonly data: Table
  /** What is wrong with it. */
  readonly problem?: string | undefined
}

const LONGEST_QUOTE = 80
const LONGEST_PROBLEM = 120

/** Text that comes from a project's file and goes to a terminal. */
export function short(text: string, most = LONGEST_QUOTE): string {
  const line = text
    .slice(0, 4 * most)
    .trim()
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/[^ -~]/g, '?')
  return line.length > most ? `${line.slice(0, most - 3)}...` : line
}

export function plainText(text: string): string {
  const unmarked = text.startsWith('\uFEFF') ? text.slice(1) : text
  return unmarked.includes('\r') ? unmarked.replaceAll(/\r\n?/g, '\n') : unmarked
}

/** The text of a file with plain line ends. */
export function readPlain(tree: FileTree, path: string): string | undefined {
  return tree.readAs(path, plainText)
}

export function readJson(tree: FileTree, path: string): Read | undefined {
  return tree.readAs(path, jsonOf)
}

export function readJsonc(tree: FileTree, path: string): Read | undefined {
  return tree.readAs(path, jsoncOf)
}

export function readToml(tree: FileTree, path: string): Read | undefined {
  return tree.readAs(path, tomlOf)
}

function jsonOf(raw: string): Read {
  return readingOf(raw, (text) => JSON.parse(text))
}

function jsoncOf(raw: string): Read {
  return readingOf(raw, (text) => {
    const errors: ParseError[] = []
    const data: unknown = parseJsonWithComments(text, errors, { allowTrailingComma: true })
    const [first] = errors
    if (first)
      throw new SyntaxError(`${printParseErrorCode(first.error)} in line ${lineAt(text, first.offset)}`)
    return data
  })
}

function tomlOf(raw: string): Read {
  return readingOf(raw, (text) => parseToml(text))
}

/** A parser throws what it likes at hostile text, an overflow of its stack included; none of it goes further than here. */
export function readingOf(raw: string, parse: (text: string) => unknown): Read {
  const text = plainText(raw)
  try {
    const data = parse(text)
    return isTable(data) ? { text, data } : { text, data: {}, problem: 'it does not hold a table' }
  } catch (error) {
    return { text, data: {}, problem: problemOf(error) }
  }
}

export function problemOf(error: unknown): string {
  return short(error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error), LONGEST_PROBLEM)
}

export function isTable(value: unknown): value is Table {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** SECURITY: keys come from files, so what an object inherits is never an answer. */
export function at(value: unknown, ...keys: readonly string[]): unknown {
  let here = value
  for (const key of keys) {
    if (!isTable(here) || !Object.hasOwn(here, key)) return undefined
    here = here[key]
  }
  return here
}

export function tableAt(value: unknown, ...keys: readonly string[]): Table {
  const found = at(value, ...keys)
  return isTable(found) ? found : {}
}

export function textAt(value: unknown, ...keys: readonly string[]): string | undefined {
  const found = at(value, ...keys)
  return typeof found === 'string' && found.trim() !== '' ? found.trim() : undefined
}

export function listAt(value: unknown, ...keys: readonly string[]): readonly unknown[] {
  const found = at(value, ...keys)
  return Array.isArray(found) ? found : []
}

export function textsAt(value: unknown, ...keys: readonly string[]): readonly string[] {
  return listAt(value, ...keys).filter((one) => typeof one === 'string')
}

/** The line of the last of several words, each looked for after the one before it. */
export function lineOf(text: string, ...words: readonly string[]): number | undefined {
  let from = 0
  let found = -1
  for (const word of words) {
    found = text.indexOf(word, from)
    if (found < 0) return undefined
    from = found + word.length
  }
  return found < 0 ? undefined : lineAt(text, found)
}

export function lineAt(text: string, offset: number): number {
  let line = 1
  for (let at = text.indexOf('\n'); at >= 0 && at < offset; at = text.indexOf('\n', at + 1)) line++
  return line
}

/** `words` lead to the line as in `lineOf`. */
export function evidenceIn(file: string, text: string, words: readonly string[], said: string): Evidence {
  const line = lineOf(text, ...words)
  return { file, ...(line !== undefined && { line }), said: short(said) }
}

/** A version or range as any ecosystem writes one; undefined for what cannot be one. */
export function versionText(raw: unknown): string | undefined {
  const text = typeof raw === 'number' ? String(raw) : raw
  if (typeof text !== 'string') return undefined
  const version = text.trim()
  return version.length <= 100 && /^[\w.*+~^<>=|, /:!-]+$/.test(version) ? version : undefined
}

/** A sentence for the notes of a finding about a file that is not what it should be. */
export function malformed(path: string, problem: string): string {
  return `${short(path)} is malformed and was not used: ${problem}`
}
