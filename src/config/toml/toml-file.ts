/** Reads a TOML file strictly. Errors name the file and position, and all problems are reported together. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { parse, TomlError } from 'smol-toml'
import type { z } from 'zod'
import { replaceHidden } from '../../util/hidden-characters.ts'
import { DEEPEST, type Path, type Position, type Positions, positionAt, positionsOf } from './positions.ts'
import { dotted, type Problem, printable, problemsError, type Remark } from './problem.ts'
import { issueMessage, schemaRemarks } from './schema-problems.ts'

export interface TomlSource {
  /** The name used in messages. */
  readonly file: string
  readonly text: string
}

export interface TomlFile<T> {
  readonly file: string
  readonly data: T
  /** The position of the value at a path. Undefined if the file does not have it. */
  at(path: Path): Position | undefined
}

const LONGEST_BYTES = 1024 * 1024

/** `check` gets data that passed the schema, and reports problems across tables. */
export function parseToml<T>(
  source: TomlSource,
  schema: z.ZodType<T>,
  check: (data: T) => readonly Remark[] = () => [],
): TomlFile<T> {
  const { file, text } = source
  const data = parsed(source)
  const positions = positionsOf(text)
  // A file is read once: compiling code for its schema takes longer than doing without.
  const result = schema.safeParse(data, { error: issueMessage, reportInput: true, jitless: true })
  const remarks = result.success ? check(result.data) : schemaRemarks(result.error, schema)
  if (!result.success || remarks.length > 0) throw problemsError(placedProblems(source, positions, remarks))
  return {
    file,
    data: result.data,
    at(path) {
      const offset = positions.value(path)
      return offset === undefined ? undefined : positionAt(text, offset)
    },
  }
}

/**
 * SECURITY: CF-02. A project's file may be a link to anything, or an endless device: only regular files are
 * read, links are not followed, and at most 1 MiB is read. Undefined if there is no file.
 */
export function readSource(file: string, o: { readonly isOurs?: boolean } = {}): string | undefined {
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = constants
  let descriptor: number
  try {
    descriptor = openSync(file, O_RDONLY | O_NONBLOCK | (o.isOurs ? 0 : O_NOFOLLOW))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    if (code === 'ELOOP')
      throw whole(file, 'is a symbolic link, not a file', 'replace it with the file itself')
    throw whole(file, `cannot be read (${code})`)
  }
  try {
    if (!fstatSync(descriptor).isFile()) throw whole(file, 'is not a file')
    const bytes = Buffer.allocUnsafe(LONGEST_BYTES + 1)
    let length = 0
    while (length < bytes.length) {
      const count = readSync(descriptor, bytes, length, bytes.length - length, null)
      if (count === 0) break
      length += count
    }
    if (length > LONGEST_BYTES) throw whole(file, `is larger than ${LONGEST_BYTES} bytes`)
    return decoded(file, bytes.subarray(0, length))
  } finally {
    closeSync(descriptor)
  }
}

function decoded(file: string, bytes: Buffer): string {
  const text = bytes.toString('utf8')
  const again = Buffer.from(text)
  if (!bytes.equals(again)) {
    // Invalid bytes decode to another character, so the first differing byte is the first wrong one.
    const wrong = bytes.findIndex((byte, index) => byte !== again[index])
    const before = bytes.subarray(0, wrong).toString('utf8')
    throw problemsError([
      {
        file,
        ...positionAt(before, before.length),
        path: '',
        message: 'is not UTF-8 from here',
        hint: 'save it as UTF-8',
        reason: 'file.malformed',
      },
    ])
  }
  return text.startsWith('\ufeff') ? text.slice(1) : text
}

function whole(file: string, message: string, hint?: string): Error {
  return problemsError([{ file, path: '', message, hint, reason: 'file.malformed' }])
}

const REDEFINED = /redefine/
const UNSAFE = /^.*unsafe property$/

function parsed({ file, text }: TomlSource): unknown {
  try {
    return parse(text, { maxDepth: DEEPEST, unsafeKeyBehaviour: 'throw' })
  } catch (error) {
    if (!(error instanceof TomlError)) throw error
    const { line, column } = error
    const offset = offsetOf(text, line) + column - 1
    const what = error.message.split('\n')[0]?.replace(/^Invalid TOML document: /, '') ?? 'is malformed'
    const twice = REDEFINED.test(what) ? positionsOf(text).before(offset) : undefined
    const message = twice
      ? `${dotted(twice.path)} is already defined on line ${positionAt(text, twice.first).line}`
      : what.replace(UNSAFE, 'a key of this name is not allowed')
    throw problemsError([
      {
        file,
        ...positionAt(text, offset),
        path: twice ? dotted(twice.path) : '',
        message: printable(message, 200),
        hint: what === 'invalid value' ? quotesHint(text.slice(offset, offset + 60)) : undefined,
        reason: 'file.malformed',
      },
    ])
  }
}

function quotesHint(text: string): string | undefined {
  const [bare] = /^[A-Za-z][\w.-]*/.exec(text) ?? []
  return bare === undefined ? undefined : `put text in quotes: "${bare}"`
}

function offsetOf(text: string, line: number): number {
  let start = 0
  for (let count = 1; count < line; count++) start = text.indexOf('\n', start) + 1
  return start
}

/** Problems in the order of their positions. */
export function placedProblems(
  { file, text }: TomlSource,
  positions: Pick<Positions, 'key' | 'value' | 'raw'>,
  remarks: readonly Remark[],
): Problem[] {
  return remarks
    .map((remark) => ({ remark, offset: offsetFor(positions, remark) }))
    .sort((one, other) => one.offset - other.offset)
    .map(({ remark, offset }) => {
      const { path, message, lacksQuotes, reason = 'file.malformed' } = remark
      const where = dotted(path)
      return {
        file,
        ...positionAt(text, offset),
        path: where,
        message: visible(reason === 'file.unknown_key' || where === '' ? message : `${where}: ${message}`),
        hint: remark.hint ?? (lacksQuotes ? `write "${printable(positions.raw(path) ?? '')}"` : undefined),
        reason,
      }
    })
}

/** A missing key has the position of the table that should contain it. */
function offsetFor(positions: Pick<Positions, 'key' | 'value'>, { path, isKey }: Remark): number {
  for (let length = path.length; length > 0; length--) {
    const inner = path.slice(0, length)
    const offset = isKey ? positions.key(inner) : positions.value(inner)
    if (offset !== undefined) return offset
  }
  return 0
}

/** SECURITY: CF-02. Quoted text must not contain terminal control characters. */
function visible(message: string): string {
  return replaceHidden(message)
}
