// A node:test reporter that writes one JSON object per line, for node-tests.ts in the parent process to read.

import { inspect } from 'node:util'

export type TestResult = {
  readonly kind: 'result'
  readonly file: string
  readonly name: string
  readonly nesting: number
  readonly isSuite: boolean
  readonly passed: boolean
  readonly durationMs: number
  /** A reason, or true where the test gives none. */
  readonly skip: string | true | null
  /** Node's name for the kind of failure, such as 'subtestsFailed'. */
  readonly failureType: string
  readonly error: string
}

export type TestEvent =
  | { readonly kind: 'begin'; readonly file: string; readonly name: string }
  | { readonly kind: 'end'; readonly file: string; readonly name: string }
  | { readonly kind: 'output'; readonly file: string; readonly text: string }
  | TestResult

type RunnerEvent = { readonly type: string; readonly data: Readonly<Record<string, unknown>> }

// biome-ignore lint/style/noDefaultExport: node loads a reporter through its default export.
export default async function* report(source: AsyncIterable<RunnerEvent>): AsyncGenerator<string> {
  for await (const event of source) {
    const line = translate(event)
    if (line) yield `${inOneLine(line)}\n`
  }
}

function translate({ type, data }: RunnerEvent): TestEvent | null {
  const file = String(data['file'] ?? '')
  const name = String(data['name'] ?? '')
  switch (type) {
    case 'test:dequeue':
      return { kind: 'begin', file, name }
    case 'test:complete':
      return { kind: 'end', file, name }
    case 'test:stdout':
    case 'test:stderr':
      return { kind: 'output', file, text: String(data['message'] ?? '') }
    case 'test:pass':
    case 'test:fail':
      return result(type === 'test:pass', file, name, data)
    default:
      return null
  }
}

function result(passed: boolean, file: string, name: string, data: RunnerEvent['data']): TestResult {
  const details = isRecord(data['details']) ? data['details'] : {}
  const error = isRecord(details['error']) ? details['error'] : {}
  const marked = data['skip'] ?? (data['todo'] === true ? 'to do' : data['todo'])
  return {
    kind: 'result',
    file,
    name,
    nesting: Number(data['nesting'] ?? 0),
    isSuite: details['type'] === 'suite',
    passed,
    durationMs: Number(details['duration_ms'] ?? 0),
    skip: typeof marked === 'string' || marked === true ? marked : null,
    failureType: String(error['failureType'] ?? ''),
    error: passed ? '' : describe(error),
  }
}

// Node wraps the error of a test in an error of its own. Shows the cause, without the runner's frames.
function describe(error: Readonly<Record<string, unknown>>): string {
  const thrown = error['cause'] ?? error
  if (!isRecord(thrown) || typeof thrown['stack'] !== 'string') {
    return typeof thrown === 'string' ? thrown : inspect(thrown, { depth: 4 })
  }
  const stack = thrown['stack']
    .replace(/\n {4}at [^\n]*\bnode:[^\n]*/g, '')
    .replace(/\n {4}at new Promise \(<anonymous>\)/g, '')
  return thrown['cause'] === undefined
    ? stack
    : `${stack}\ncaused by ${inspect(thrown['cause'], { depth: 4 })}`
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

/** Escapes the characters in test names that line readers take for the end of a line. */
function inOneLine(line: object): string {
  return JSON.stringify(line).replaceAll(
    /[\u2028\u2029\u0085]/g,
    (mark) => `\\u${mark.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
