/** Problems in a configuration file, each with its position, reported as one error. */
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { toPrintableAscii } from '../../util/hidden-characters.ts'
import type { Path } from './positions.ts'

/** A problem at a path of a document. */
export interface Remark {
  readonly path: Path
  /** Whether the key is wrong, not its value. */
  readonly isKey?: boolean | undefined
  /** Whether it concerns a whole value; a problem inside the value may have caused it. */
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
  /** The path with dots; empty for the whole file. */
  readonly path: string
  /** A sentence; it names the path if there is one. */
  readonly message: string
  readonly hint?: string | undefined
  readonly reason: string
}

/** Nobody reads more. */
export const MOST_PROBLEMS = 20

/** The first problem gives the reason; all are in the message, one per line, and in the details. */
export function problemsError(problems: readonly Problem[]): AgentPodError {
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
    hint: isAlone ? first?.hint : '`agentpod config check` shows each problem',
    details: { problems: shown },
  })
}

export function whereOf({ file, line, column }: Problem): string {
  return line === undefined ? file : `${file}:${line}:${column}`
}

/** The problems in an AgentPodError. Undefined for any other error. */
export function problemsIn(error: unknown): readonly Problem[] | undefined {
  if (!isAgentPodError(error, 'invalid_argument')) return undefined
  const { problems } = error.details
  return Array.isArray(problems) ? (problems as readonly Problem[]) : undefined
}

/** SECURITY: CF-02. Makes text from a project's file safe to show on a terminal. */
export function printable(text: string, longest = 60): string {
  return toPrintableAscii(text).slice(0, longest)
}

export function quoted(text: string): string {
  return JSON.stringify(printable(text, 40))
}

export function dotted(path: Path): string {
  return path.map((step) => printable(String(step))).join('.')
}
