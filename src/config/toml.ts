/** A TOML file as plain data, read strictly: a mistake is an error that names the file and the place, and all mistakes are told at once. */
import { closeSync, constants, fstatSync, openSync, readSync } from 'node:fs'
import { parse, TomlError } from 'smol-toml'
import type { z } from 'zod'
import { replaceHidden } from '../util/hidden-characters.ts'
import { remarksOf, wordIssue } from './issue.ts'
import { dotted, type Problem, printable, type Remark, refusal } from './problem.ts'
import { DEEPEST, type Path, type Place, type Positions, placeOf, positionsOf } from './toml-positions.ts'

export interface TomlSource {
  /** As it is called in messages. */
  readonly file: string
  readonly text: string
}

export interface TomlFile<T> {
  readonly file: string
  readonly data: T
  /** Where the value of a path stands. Undefined for what the file does not say. */
  at(path: Path): Place | undefined
}

const LONGEST_BYTES = 1024 * 1024

/** `check` is asked about data that the schema has taken, and says what is wrong across tables. */
export function parseToml<T>(
  source: TomlSource,
  schema: z.ZodType<T>,
  check: (data: T) => readonly Remark[] = () => [],
): TomlFile<T> {
  const { file, text } = source
  const data = parsed(source)
  const positions = positionsOf(text)
  const result = schema.safeParse(data, { error: wordIssue, reportInput: true })
  const remarks = result.success ? check(result.data) : remarksOf(result.error, schema)
  if (!result.success || remarks.length > 0) throw refusal(placed(source, positions, remarks))
  return {
    file,
    data: result.data,
    at(path) {
      const offset = positions.value(path)
      return offset === undefined ? undefined : placeOf(text, offset)
    },
  }
}

/**
 * SECURITY: CF-02. A project's file may be a link to anything, or a device that never ends: of a project only a plain file is read, never what
 * a link leads to, and of each at most a megabyte. Undefined where there is none.
 */
export function readSource(file: string, o: { readonly isOurs?: boolean } = {}): string | undefined {
  const { O_RDONLY, O_NONBLOCK, O_NOFOLLOW } = constants
  let descriptor: number
  try {
    descriptor = openSync(file, O_RDONLY | O_NONBLOCK | (o.isOurs ? 0 : O_NOFOLLOW))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return undefined
    if (code === 'ELOOP') throw whole(file, 'is not a file but a link', 'put the file itself there')
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
    if (length > LONGEST_BYTES) throw whole(file, `is not a file of at most ${LONGEST_BYTES} bytes`)
    return decoded(file, bytes.subarray(0, length))
  } finally {
    closeSync(descriptor)
  }
}

function decoded(file: string, bytes: Buffer): string {
  const text = bytes.toString('utf8')
  const again = Buffer.from(text)
  if (!bytes.equals(again)) {
    // What cannot be decoded becomes another character, so the first byte that differs is the first that is wrong.
    const wrong = bytes.findIndex((byte, index) => byte !== again[index])
    const before = bytes.subarray(0, wrong).toString('utf8')
    throw refusal([
      {
        file,
        ...placeOf(before, before.length),
        path: '',
        message: 'is not UTF-8 from here on',
        hint: 'save it as UTF-8',
        reason: 'file.malformed',
      },
    ])
  }
  return text.startsWith('\ufeff') ? text.slice(1) : text
}

function whole(file: string, message: string, hint?: string): Error {
  return refusal([{ file, path: '', message, hint, reason: 'file.malformed' }])
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
      ? `${dotted(twice.path)} is there already, on line ${placeOf(text, twice.first).line}`
      : what.replace(UNSAFE, 'a key of this name is never taken')
    throw refusal([
      {
        file,
        ...placeOf(text, offset),
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
  return bare === undefined ? undefined : `text stands in quotes: "${bare}"`
}

function offsetOf(text: string, line: number): number {
  let start = 0
  for (let count = 1; count < line; count++) start = text.indexOf('\n', start) + 1
  return start
}

/** Remarks in the order of their places. */
function placed({ file, text }: TomlSource, positions: Positions, remarks: readonly Remark[]): Problem[] {
  return remarks
    .map((remark) => ({ remark, offset: offsetFor(positions, remark) }))
    .sort((one, other) => one.offset - other.offset)
    .map(({ remark, offset }) => {
      const { path, message, lacksQuotes, reason = 'file.malformed' } = remark
      const where = dotted(path)
      return {
        file,
        ...placeOf(text, offset),
        path: where,
        message: visible(reason === 'file.unknown_key' || where === '' ? message : `${where}: ${message}`),
        hint: remark.hint ?? (lacksQuotes ? `write "${printable(positions.raw(path) ?? '')}"` : undefined),
        reason,
      }
    })
}

/** Of what is not there, the place of what it should be in. */
function offsetFor(positions: Positions, { path, isKey }: Remark): number {
  for (let length = path.length; length > 0; length--) {
    const inner = path.slice(0, length)
    const offset = isKey ? positions.key(inner) : positions.value(inner)
    if (offset !== undefined) return offset
  }
  return 0
}

/** SECURITY: CF-02. Whatever a message quotes, a terminal shows it and does not obey. */
function visible(message: string): string {
  return replaceHidden(message)
}
