/**
 * Reads a file of JSON with comments strictly. Errors name the file and position, and all problems are
 * reported together. Comments and trailing commas are allowed; a key that is there twice is not.
 */
import {
  createScanner,
  type Node,
  type ParseError,
  type ParseErrorCode,
  parseTree,
  printParseErrorCode,
} from 'jsonc-parser'
import type { z } from 'zod'
import { type Path, type Position, positionAt } from '../toml/positions.ts'
import { dotted, MOST_PROBLEMS, type Problem, problemsError, type Remark } from '../toml/problem.ts'
import { issueMessage, schemaRemarks } from '../toml/schema-problems.ts'
import { placedProblems, type TomlSource } from '../toml/toml-file.ts'

/** The name used in messages, and the text. */
export type JsoncSource = TomlSource

export interface JsoncDocument {
  readonly file: string
  readonly text: string
  /** The value as it is written, with the keys in their order. */
  readonly value: unknown
  /** The position of the value at a path. Undefined if the file does not have it. */
  at(path: Path): Position | undefined
  /** Problems at paths of the file, in the order of their positions. */
  problems(remarks: readonly Remark[]): Problem[]
}

export interface JsoncFile<T> extends JsoncDocument {
  /** The value after the schema: unknown keys are errors, and keys are in the order of the schema. */
  readonly data: T
}

const LONGEST_TEXT = 1024 * 1024
const DEEPEST_JSON = 64
const MOST_VALUES = 100_000

/** `check` gets data that passed the schema, and reports problems across keys. */
export function parseJsonc<T>(
  source: JsoncSource,
  schema: z.ZodType<T>,
  check: (data: T) => readonly Remark[] = () => [],
): JsoncFile<T> {
  const document = readJsonc(source)
  const result = schema.safeParse(document.value, { error: jsonIssueMessage, reportInput: true })
  const remarks = result.success ? check(result.data) : schemaRemarks(result.error, schema)
  if (!result.success || remarks.length > 0) throw problemsError(document.problems(remarks))
  return { ...document, data: result.data }
}

/** The values of the file, without a schema. */
export function readJsonc(source: JsoncSource): JsoncDocument {
  const text = source.text.startsWith('\ufeff') ? source.text.slice(1) : source.text
  const file = { file: source.file, text }
  checkSize(file)
  const errors: ParseError[] = []
  const root = parseTree(text, errors, { allowTrailingComma: true })
  const [first] = errors
  if (first) throw malformed(file, first.offset, syntaxMessage(first.error))
  if (!root) throw malformed(file, 0, 'is empty')
  const problems: Problem[] = []
  const value = readValue(root, [], (offset, path, first) => {
    // Finding a line takes time, and a file may have a hundred thousand problems.
    if (problems.length > MOST_PROBLEMS) return
    const message =
      first === undefined
        ? 'a key of this name is not allowed'
        : `${dotted(path)} is already defined on line ${positionAt(text, first).line}`
    problems.push({ ...problemAt(file, offset, message), path: dotted(path) })
  })
  if (problems.length > 0) throw problemsError(problems)
  const find = (path: Path): Node | undefined => nodeAt(root, path)
  const positions = {
    key: (path: Path) => keyOffset(find(path)),
    value: (path: Path) => find(path)?.offset,
    raw(path: Path) {
      const node = find(path)
      return node && text.slice(node.offset, node.offset + node.length)
    },
  }
  return {
    ...file,
    value,
    at(path) {
      const offset = positions.value(path)
      return offset === undefined ? undefined : positionAt(text, offset)
    },
    problems: (remarks) => placedProblems(file, positions, remarks),
  }
}

/** JSON says "object" and "array". The messages of these codes hold no text of the file. */
function jsonIssueMessage(issue: z.core.$ZodRawIssue): string {
  const message = issueMessage(issue)
  if (issue.code !== 'invalid_type' && issue.code !== 'invalid_union') return message
  return message.replaceAll('a table', 'an object').replaceAll('a list', 'an array')
}

/** The numbers of jsonc-parser's kinds of tokens. */
const OPENS = new Set([1, 3])
const CLOSES = new Set([2, 4])
const COMMA = 5
const END = 17

/**
 * SECURITY: CF-02. The parser calls itself for each level, so the depth is checked with its scanner, which
 * does not.
 */
function checkSize(source: JsoncSource): void {
  const { text } = source
  if (text.length > LONGEST_TEXT) throw malformed(source, 0, `is larger than ${LONGEST_TEXT} characters`)
  const scanner = createScanner(text, true)
  let depth = 0
  let values = 0
  for (let kind: number = scanner.scan(); kind !== END; kind = scanner.scan()) {
    if (OPENS.has(kind)) depth++
    if (CLOSES.has(kind)) depth--
    if (kind === COMMA || OPENS.has(kind)) values++
    if (depth > DEEPEST_JSON)
      throw malformed(source, scanner.getTokenOffset(), `is nested deeper than ${DEEPEST_JSON} levels`)
    if (values > MOST_VALUES)
      throw malformed(source, scanner.getTokenOffset(), `has more than ${MOST_VALUES} values`)
  }
}

const SYNTAX: Readonly<Record<string, string>> = {
  InvalidSymbol: 'is not a value: text is in double quotes',
  InvalidNumberFormat: 'is not a number',
  PropertyNameExpected: 'a key in double quotes is missing here',
  ValueExpected: 'a value is missing here',
  ColonExpected: 'a colon is missing here',
  CommaExpected: 'a comma is missing here',
  CloseBraceExpected: 'a closing } is missing here',
  CloseBracketExpected: 'a closing ] is missing here',
  EndOfFileExpected: 'has text after its end',
  InvalidCommentToken: 'is not a comment',
  UnexpectedEndOfComment: 'the comment has no end',
  UnexpectedEndOfString: 'the text has no closing quote',
  UnexpectedEndOfNumber: 'the number has no end',
  InvalidUnicode: 'is not a valid \\u escape',
  InvalidEscapeCharacter: 'is not a valid escape',
  InvalidCharacter: 'is a character that JSON does not allow in text',
}

function syntaxMessage(code: ParseErrorCode): string {
  return SYNTAX[printParseErrorCode(code)] ?? 'is malformed'
}

function problemAt({ file, text }: JsoncSource, offset: number, message: string): Problem {
  return { file, ...positionAt(text, offset), path: '', message, reason: 'file.malformed' }
}

function malformed(source: JsoncSource, offset: number, message: string): Error {
  return problemsError([problemAt(source, offset, message)])
}

/** `first` is the place of the same key before, if that is the problem. */
type Report = (offset: number, path: Path, first?: number) => void

/** SECURITY: CF-02. `__proto__` is refused, so that no object has keys which it does not own. */
function readValue(node: Node, path: Path, report: Report): unknown {
  if (node.type === 'array')
    return (node.children ?? []).map((child, index) => readValue(child, [...path, index], report))
  if (node.type !== 'object') return node.value
  const made: Record<string, unknown> = {}
  const seen = new Map<string, number>()
  for (const { children: [key, value] = [] } of node.children ?? []) {
    if (!key || !value) continue
    const name = String(key.value)
    const inner = [...path, name]
    if (name === '__proto__' || seen.has(name)) report(key.offset, inner, seen.get(name))
    else made[name] = readValue(value, inner, report)
    if (!seen.has(name)) seen.set(name, key.offset)
  }
  return made
}

function nodeAt(root: Node, path: Path): Node | undefined {
  let node: Node | undefined = root
  for (const step of path) {
    const children: readonly Node[] = node?.children ?? []
    node =
      typeof step === 'number'
        ? children[step]
        : children.find((property) => property.children?.[0]?.value === step)?.children?.[1]
  }
  return node
}

/** The key of a value, or the value itself if it has none. */
function keyOffset(node: Node | undefined): number | undefined {
  return node?.parent?.type === 'property' ? node.parent.offset : node?.offset
}
