/** Our errors as a person reads them, and as an exit code. */
import { type AgentPodError, asAgentPodError, type ErrorCode } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { fromSystem } from './file-error.ts'
import type { Terminal } from './terminal.ts'

const EXIT: Record<ErrorCode, number> = {
  internal: 1,
  invalid_argument: 2,
  unauthenticated: 3,
  permission_denied: 3,
  policy_denied: 3,
  not_found: 4,
  already_exists: 5,
  conflict: 5,
  unsupported: 6,
  failed_precondition: 6,
  resource_exhausted: 7,
  deadline_exceeded: 8,
  unavailable: 8,
  data_loss: 9,
  canceled: 130,
}

/** The exit code of a failure of ours in a command that passes another program's code through. */
export const OWN_FAILURE = 125

export function exitCode(thrown: unknown): number {
  return EXIT[plain(thrown).code]
}

export function printError(terminal: Terminal, thrown: unknown, isJson: boolean): void {
  const error = plain(thrown)
  if (isJson) {
    const { code, reason, message, hint, details } = error
    terminal.say(JSON.stringify({ error: { code, reason, message, hint, details } }))
    return
  }
  terminal.say(`${terminal.red('error:')} ${lines(error.message)}`)
  if (error.hint) terminal.say(`${terminal.dim('hint:')} ${lines(error.hint)}`)
  if (error.code === 'internal' && isOurs(error)) terminal.say(terminal.dim(`(${error.reason})`))
}

function plain(thrown: unknown): AgentPodError {
  return fromSystem(thrown) ?? asAgentPodError(thrown)
}

function isOurs(error: AgentPodError): boolean {
  return error.reason !== 'internal'
}

function lines(text: string): string {
  return text.split('\n').map(showHidden).join('\n')
}
