/** What is wrong with a configuration file, each thing with its place, and all of it as one error. */
import { AgentPodError, isAgentPodError } from '../core/error.ts'
import type { Path } from './toml-positions.ts'

/** Something that is wrong at a path of a document. */
export interface Remark {
  readonly path: Path
  /** Whether the key is wrong, and not its value. */
  readonly isKey?: boolean | undefined
  /** Whether it is about a value as a whole, which something wrong inside may have caused. */
  readonly isWhole?: boolean | undefined
  readonly message: string
  readonly hint?: string | undefined
  readonly reason?: string | undefined
  /** Whether the value would be right if it were in quotes. */
  readonly lacksQuotes?: boolean | undefined
}

export interface Problem {
  readonly file: string
  readonly line?: number | undefined
  readonly column?: number | undefined
  /** The keys that lead to it, with dots between; empty for the file as a whole. */
  readonly path: string
  /** A whole sentence; it names the path where there is one. */
  readonly message: string
  readonly hint?: string | undefined
  readonly reason: string
}

/** More would not be read. */
export const MOST_PROBLEMS = 20

/** The first problem is the error; the others follow, a line each, and all are in its details. */
export function refusal(problems: readonly Problem[]): AgentPodError {
  const shown = problems.slice(0, MOST_PROBLEMS)
  const [first] = shown
  const isAlone = shown.length === 1
  const lines = shown.map((problem) => {
    const line = `${whereOf(problem)}: ${problem.message}`
    return isAlone || problem.hint === undefined ? line : `${line} (${problem.hint})`
  })
  if (problems.length > shown.length) lines.push('and more')
  return new AgentPodError({
    code: 'invalid_argument',
    reason: first?.reason ?? 'file.malformed',
    message: lines.join('\n'),
    hint: isAlone ? first?.hint : '`agentpod config check` shows each place',
    details: { problems: shown },
  })
}

export function whereOf({ file, line, column }: Problem): string {
  return line === undefined ? file : `${file}:${line}:${column}`
}

/** The problems that an error of ours is made of. Undefined for any other error. */
export function problemsIn(error: unknown): readonly Problem[] | undefined {
  if (!isAgentPodError(error, 'invalid_argument')) return undefined
  const { problems } = error.details
  return Array.isArray(problems) ? (problems as readonly Problem[]) : undefined
}

/** SECURITY: CF-02. Words of a project's file on their way to a terminal. */
export function printable(text: string, longest = 60): string {
  return text.replace(/[^ -~]/g, '?').slice(0, longest)
}

export function quoted(text: string): string {
  return JSON.stringify(printable(text, 40))
}

export function dotted(path: Path): string {
  return path.map((step) => printable(String(step))).join('.')
}
