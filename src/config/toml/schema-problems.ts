/** Turns schema issues into messages for the person who wrote the file. */
import * as z from 'zod'
import { nearest } from '../../util/nearest.ts'
import type { Path } from './positions.ts'
import { dotted, quoted, type Remark } from './problem.ts'

type Issue = z.core.$ZodIssue
type RawIssue = z.core.$ZodRawIssue

/** A file can have a hundred thousand problems; a few are enough. */
const MOST_REMARKS = 200

/** Other words that people use for our keys. */
const SYNONYMS: Readonly<Record<string, string>> = {
  nodejs: 'node',
  javascript: 'node',
  typescript: 'node',
  golang: 'go',
  py: 'python',
  python3: 'python',
  jdk: 'java',
  openjdk: 'java',
  csharp: 'dotnet',
  cpp: 'c',
  env: 'variables',
  environments: 'environment',
  postgresql: 'postgres',
  mongo: 'mongodb',
  install: 'setup',
  cpu: 'cpus',
  ttl: 'timeout',
}

/** The message of an issue for which the schema has no message of its own. */
export function issueMessage(issue: Issue | RawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
    case 'invalid_union':
      return `must be ${either(expected(issue))}, not ${kindOf(issue.input)}`
    case 'invalid_value': {
      const given = typeof issue.input === 'string' ? quoted(issue.input) : kindOf(issue.input)
      return `must be ${either(expected(issue))}, not ${given}`
    }
    case 'too_big':
      return tooBig(String(issue.origin), issue.maximum)
    case 'too_small':
      return tooSmall(String(issue.origin), issue.minimum)
    default:
      return 'is malformed'
  }
}

function tooBig(origin: string, most: unknown): string {
  if (origin === 'string') return `is longer than ${most} characters`
  return origin === 'array' ? `has more than ${most} entries` : `must be at most ${most}`
}

function tooSmall(origin: string, least: unknown): string {
  if (origin === 'string' || origin === 'array') return least === 1 ? 'is empty' : `is shorter than ${least}`
  return `must be at least ${least}`
}

const STRING = 'a string'
const NOUNS: Readonly<Record<string, string>> = {
  string: STRING,
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'a table',
  record: 'a table',
}

function expected(issue: Issue | RawIssue): string[] {
  if (issue.code === 'invalid_type') return [NOUNS[String(issue.expected)] ?? String(issue.expected)]
  if (issue.code === 'invalid_value')
    return (issue.values as readonly unknown[]).map((value) => JSON.stringify(value))
  if (issue.code !== 'invalid_union') return []
  const branches = issue.errors as readonly (readonly Issue[])[]
  return [...new Set(branches.flat().flatMap((inner) => (inner.path.length === 0 ? expected(inner) : [])))]
}

function either(words: readonly string[]): string {
  return words.length < 2 ? words.join() : `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}

function kindOf(value: unknown): string {
  if (typeof value === 'boolean') return String(value)
  if (typeof value === 'number') return Number.isInteger(value) ? 'a number' : `the number ${value}`
  if (Array.isArray(value)) return 'a list'
  if (value === null) return 'null'
  if (value instanceof Date) return 'a date'
  return typeof value === 'object' ? 'a table' : `a ${typeof value}`
}

export function schemaRemarks(error: z.ZodError, schema: z.ZodType): Remark[] {
  const remarks: Remark[] = []
  for (const issue of error.issues) {
    if (remarks.length >= MOST_REMARKS) break
    remarks.push(...expand(issue, [], schema))
  }
  return withoutEchoes(remarks.slice(0, MOST_REMARKS))
}

/**
 * Keeps one remark per place, and drops remarks about a table if something inside it is wrong: that is mostly
 * the same mistake.
 */
function withoutEchoes(remarks: readonly Remark[]): Remark[] {
  const seen = new Set<string>()
  const above = new Set(
    remarks.flatMap(({ path }) => path.map((_, length) => JSON.stringify(path.slice(0, length)))),
  )
  return remarks.filter(({ path, isWhole }) => {
    const key = JSON.stringify(path)
    const isEcho = seen.has(key) || (isWhole === true && above.has(key))
    seen.add(key)
    return !isEcho
  })
}

function expand(issue: Issue, above: Path, schema: z.ZodType): Remark[] {
  const path = [...above, ...(issue.path as Path)]
  if (issue.code === 'unrecognized_keys')
    return issue.keys.slice(0, MOST_REMARKS).map((key) => unknownKey([...path, key], schema))
  if (issue.code === 'invalid_key')
    return [{ path, isKey: true, message: issue.issues[0]?.message ?? 'is not a valid key here' }]
  if (isMissing(issue))
    return [{ path: path.slice(0, -1), message: `needs the key ${dotted(path.slice(-1))}` }]
  if (issue.code === 'invalid_union') {
    const branch = issue.errors.find(isOfItsKind)
    if (branch) return branch.flatMap((inner) => expand(inner, path, schema))
  }
  return [
    {
      path,
      isWhole: issue.code === 'custom',
      message: issue.message,
      hint: given(issue, 'hint') ?? (issue.code === 'invalid_value' ? nearestValue(issue) : undefined),
      reason: given(issue, 'reason'),
      lacksQuotes: lacksQuotes(issue),
    },
  ]
}

/**
 * Whether quoting the value would fix the error. False if the schema has its own message, because then
 * something else is wrong.
 */
function lacksQuotes(issue: Issue): boolean {
  if (issue.message !== issueMessage(issue)) return false
  const words = expected(issue)
  if (typeof issue.input === 'boolean') return words.join() === STRING
  return typeof issue.input === 'number' && words.includes(STRING)
}

/** TOML has no null, so an undefined input means that the key is missing. */
function isMissing({ code, input }: Issue): boolean {
  return input === undefined && ['invalid_type', 'invalid_union', 'invalid_value'].includes(code)
}

/** Whether this alternative has the right type, so that the problem is inside the value. */
function isOfItsKind(issues: readonly Issue[]): boolean {
  return !issues.some(
    ({ code, path }) =>
      path.length === 0 && ['invalid_type', 'invalid_value', 'invalid_union'].includes(code),
  )
}

/** The hint or reason that one of our own checks added. */
function given(issue: Issue, name: 'hint' | 'reason'): string | undefined {
  const value = issue.code === 'custom' ? issue.params?.[name] : undefined
  return typeof value === 'string' ? value : undefined
}

function nearestValue({ values, input }: z.core.$ZodIssueInvalidValue): string | undefined {
  if (typeof input !== 'string') return undefined
  const known = values.filter((value) => typeof value === 'string')
  return didYouMean(input, known)
}

function unknownKey(path: Path, schema: z.ZodType): Remark {
  const key = String(path.at(-1))
  const known = schemasAt(schema, path.slice(0, -1)).flatMap((one) => Object.keys(shapeOf(one) ?? {}))
  return {
    path,
    isKey: true,
    message: `unknown key ${dotted(path)}`,
    hint: didYouMean(key, known) ?? elsewhere(key, schema),
    reason: 'file.unknown_key',
  }
}

export function didYouMean(word: string, known: readonly string[]): string | undefined {
  const lower = word.toLowerCase()
  const synonym = Object.hasOwn(SYNONYMS, lower) ? SYNONYMS[lower] : undefined
  const near =
    synonym !== undefined && known.includes(synonym)
      ? synonym
      : (nearest(word, known) ?? nearest(lower, known))
  return near === undefined ? undefined : `did you mean ${near}?`
}

/** A hint with the table that has exactly this key. */
function elsewhere(key: string, schema: z.ZodType): string | undefined {
  const waiting: { readonly path: readonly string[]; readonly shape: Record<string, z.ZodType> }[] = []
  const visit = (path: readonly string[], inner: z.ZodType): void => {
    const shape = shapeOf(inner)
    if (shape) waiting.push({ path, shape })
  }
  visit([], schema)
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const { path, shape } = next
    if (Object.hasOwn(shape, key))
      return path.length === 0 ? 'it belongs at the top of the file' : `it belongs under [${path.join('.')}]`
    for (const [name, inner] of Object.entries(shape)) visit([...path, name], inner)
  }
  return undefined
}

/** Every schema that may apply to a value at a path. */
function schemasAt(schema: z.ZodType, path: Path): z.ZodType[] {
  let at = alternatives(schema)
  for (const step of path)
    at = at.flatMap((one) => {
      const inner = innerOf(one, step)
      return inner ? alternatives(inner) : []
    })
  return at
}

function innerOf(schema: z.ZodType, step: string | number): z.ZodType | undefined {
  if (schema instanceof z.ZodArray) return schema.element as z.ZodType
  if (schema instanceof z.ZodRecord) return schema.valueType as z.ZodType
  const shape = shapeOf(schema)
  return shape && Object.hasOwn(shape, step) ? shape[String(step)] : undefined
}

function alternatives(schema: z.ZodType): z.ZodType[] {
  if (schema instanceof z.ZodOptional) return alternatives(schema.unwrap() as z.ZodType)
  if (schema instanceof z.ZodUnion) return schema.options.flatMap((one) => alternatives(one as z.ZodType))
  return [schema]
}

function shapeOf(schema: z.ZodType): Record<string, z.ZodType> | undefined {
  if (schema instanceof z.ZodOptional) return shapeOf(schema.unwrap() as z.ZodType)
  return schema instanceof z.ZodObject ? (schema.shape as Record<string, z.ZodType>) : undefined
}
