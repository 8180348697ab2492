/** Parses files of a project. They are untrusted: any problem becomes a note, never an error. */
import { type ParseError, parse as parseJsonWithComments, printParseErrorCode } from 'jsonc-parser'
import { parse as parseToml, TomlError } from 'smol-toml'
import { toPrintableAscii } from '../../../util/hidden-characters.ts'
import { isObject, type JsonObject, listAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import type { FileTree } from '../../file-tree.ts'

export interface ParsedFile {
  /** Without a byte order mark, and with `\n` as line end. */
  readonly text: string
  /** Empty if the file is malformed. */
  readonly data: JsonObject
  /** The problem, if it is malformed. */
  readonly problem?: string | undefined
}

const LONGEST_QUOTE = 80
const LONGEST_PROBLEM = 120

/** A short, printable quote from a project's file. */
export function shortQuote(text: string, most = LONGEST_QUOTE): string {
  const line = toPrintableAscii(
    text
      .slice(0, 4 * most)
      .trim()
      .replaceAll(/\s+/g, ' '),
  )
  return line.length > most ? `${line.slice(0, most - 3)}...` : line
}

export function normalizeText(text: string): string {
  const unmarked = text.startsWith('\uFEFF') ? text.slice(1) : text
  return unmarked.includes('\r') ? unmarked.replaceAll(/\r\n?/g, '\n') : unmarked
}

/** The text of a file with `\n` as line end. */
export function readTextFile(tree: FileTree, path: string): string | undefined {
  return tree.readAs(path, normalizeText)
}

export function readJsonFile(tree: FileTree, path: string): ParsedFile | undefined {
  return tree.readAs(path, jsonOf)
}

export function readJsoncFile(tree: FileTree, path: string): ParsedFile | undefined {
  return tree.readAs(path, jsoncOf)
}

export function readTomlFile(tree: FileTree, path: string): ParsedFile | undefined {
  return tree.readAs(path, tomlOf)
}

function jsonOf(raw: string): ParsedFile {
  return parseFile(raw, (text) => JSON.parse(text))
}

function jsoncOf(raw: string): ParsedFile {
  return parseFile(raw, (text) => {
    const errors: ParseError[] = []
    const data: unknown = parseJsonWithComments(text, errors, { allowTrailingComma: true })
    const [first] = errors
    if (first)
      throw new SyntaxError(`${printParseErrorCode(first.error)} in line ${lineAt(text, first.offset)}`)
    return data
  })
}

function tomlOf(raw: string): ParsedFile {
  return parseFile(raw, (text) => parseToml(text))
}

/** Catches everything that a parser throws at hostile text, including a stack overflow. */
export function parseFile(raw: string, parse: (text: string) => unknown): ParsedFile {
  const text = normalizeText(raw)
  try {
    const data = parse(text)
    return isObject(data) ? { text, data } : { text, data: {}, problem: 'it does not contain a table' }
  } catch (error) {
    return { text, data: {}, problem: parseProblem(error) }
  }
}

export function parseProblem(error: unknown): string {
  // A parser that calls itself for each level has used up the stack.
  if (error instanceof RangeError && error.message.includes('call stack')) return 'it is nested too deeply'
  const said = shortQuote(
    error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error),
    LONGEST_PROBLEM,
  )
  return error instanceof TomlError ? `${said} in line ${error.line}, column ${error.column}` : said
}

export function textAt(value: unknown, ...keys: readonly string[]): string | undefined {
  const found = valueAt(value, ...keys)
  return typeof found === 'string' && found.trim() !== '' ? found.trim() : undefined
}

export function stringsAt(value: unknown, ...keys: readonly string[]): readonly string[] {
  return listAt(value, ...keys).filter((one) => typeof one === 'string')
}

/** The line of the last word; each word is searched after the one before it. */
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
  for (let end = text.indexOf('\n'); end >= 0 && end < offset; end = text.indexOf('\n', end + 1)) line++
  return line
}

/** Finds the line by `words`, as `lineOf` does. */
export function evidenceIn(file: string, text: string, words: readonly string[], said: string): Evidence {
  const line = lineOf(text, ...words)
  return { file, ...(line !== undefined && { line }), said: shortQuote(said) }
}

/** A version or range of any ecosystem; undefined for other text. */
export function versionText(raw: unknown): string | undefined {
  const text = typeof raw === 'number' ? String(raw) : raw
  if (typeof text !== 'string') return undefined
  const version = text.trim()
  return version.length <= 100 && /^[\w.*+~^<>=|, /:!-]+$/.test(version) ? version : undefined
}

/** A note about a malformed file. */
export function malformedNote(path: string, problem: string): string {
  return `${shortQuote(path)} is malformed and was not used: ${problem}`
}
