/** A refusal, worded for the program that was refused and for the developer or agent that runs it. */
import { AgentPodError, asAgentPodError, type ErrorCode } from '../core/error.ts'
import type { Verdict as Outcome } from '../core/network.ts'
import { toPrintableAscii } from '../util/hidden-characters.ts'

export type RefusalStatus = 400 | 403 | 421 | 429 | 502

export interface Refusal {
  readonly status: RefusalStatus
  /** A stable dotted word, which records contain too. */
  readonly reason: string
  readonly message: string
  readonly hint?: string | undefined
}

const PHRASES: Readonly<Record<RefusalStatus, string>> = {
  400: 'Bad Request',
  403: 'Forbidden',
  421: 'Misdirected Request',
  429: 'Too Many Requests',
  502: 'Bad Gateway',
}
const STATUSES: Partial<Readonly<Record<ErrorCode, RefusalStatus>>> = {
  invalid_argument: 400,
  policy_denied: 403,
  resource_exhausted: 429,
}
const LIMITS = /^(?:budget|cap|dns\.flood)/

export function newRefusal(status: RefusalStatus, reason: string, message: string, hint?: string): Refusal {
  return { status, reason, message, hint }
}

/** The refusal for a decision that does not allow. */
export function refusalOf(decision: Omit<Refusal, 'status'>): Refusal {
  const { reason, message, hint } = decision
  return { status: LIMITS.test(reason) ? 429 : 403, reason, message, hint }
}

export function denied(reason: string, message: string, hint?: string): AgentPodError {
  const code = LIMITS.test(reason) ? 'resource_exhausted' : 'policy_denied'
  return new AgentPodError({ code, reason, message, hint })
}

export function failed(reason: string, message: string, hint?: string): AgentPodError {
  return new AgentPodError({ code: 'unavailable', reason, message, hint })
}

/**
 * The refusal for an error while connecting. Messages of foreign errors are dropped: they may contain
 * anything.
 */
export function refusalOfError(error: unknown): Refusal {
  const { code, reason, message, hint } = asAgentPodError(error)
  const status = STATUSES[code]
  if (status) return { status, reason, message, hint }
  if (code === 'unavailable') return { status: 502, reason, message, hint }
  return newRefusal(502, 'upstream.failed', 'the connection to the server failed', 'try again')
}

export function outcomeOf({ status }: Refusal): Outcome {
  return status === 502 ? 'failed' : 'denied'
}

/** The text that the client sees. SECURITY: only printable ASCII, whatever the message contains. */
export function refusalText({ reason, message, hint }: Refusal): string {
  const isFailure = reason.startsWith('upstream') || (reason.startsWith('dns.') && reason !== 'dns.flood')
  const lines = [
    `${isFailure ? 'AgentPod could not connect' : 'AgentPod blocked this request'}: ${message} [${reason}]`,
    ...(hint ? [`What to do: ${hint}.`] : []),
    'Nothing was sent. Retrying gives the same result until the network rules of this sandbox change.',
  ]
  // A limit or a changed policy may allow the next attempt.
  const mayPass = isFailure || LIMITS.test(reason) || reason === 'policy.changed'
  const shown = mayPass ? lines.slice(0, -1) : lines
  return `${shown.map(toPrintableAscii).join('\n')}\n`
}

export function refusalHeaders(refusal: Refusal, body: string): [string, string][] {
  return [
    ['Content-Type', 'text/plain; charset=utf-8'],
    ['Content-Length', String(Buffer.byteLength(body))],
    ['X-AgentPod-Refused', refusal.reason],
    ['Connection', 'close'],
  ]
}

/** A complete response: some clients wait forever for the end of a response without a length. */
export function refusalResponse(refusal: Refusal): string {
  const body = refusalText(refusal)
  const headers = refusalHeaders(refusal, body).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${refusal.status} ${PHRASES[refusal.status]}\r\n${headers.join('')}\r\n${body}`
}

export function phraseOf(status: RefusalStatus): string {
  return PHRASES[status]
}
