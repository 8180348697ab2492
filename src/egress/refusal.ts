/** A refusal in words for the program that was refused, and often for the agent that runs it. */
import { AgentPodError, asAgentPodError, type ErrorCode } from '../core/error.ts'
import type { Verdict as Outcome } from '../core/network.ts'

export type RefusalStatus = 400 | 403 | 421 | 429 | 502

export interface Refusal {
  readonly status: RefusalStatus
  /** A stable dotted word, which records hold too. */
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

export function refusal(status: RefusalStatus, reason: string, message: string, hint?: string): Refusal {
  return { status, reason, message, hint }
}

/** Of a decision that is no yes. */
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

/** Of what was thrown on the way to a server. The words of others are left out: they may hold anything. */
export function refusalOfError(error: unknown): Refusal {
  const { code, reason, message, hint } = asAgentPodError(error)
  const status = STATUSES[code]
  if (status) return { status, reason, message, hint }
  if (code === 'unavailable') return { status: 502, reason, message, hint }
  return refusal(502, 'upstream.failed', 'the connection to the server failed', 'try again')
}

export function outcomeOf({ status }: Refusal): Outcome {
  return status === 502 ? 'failed' : 'denied'
}

/** Text for the refused, in lines. SECURITY: only printable ASCII, whatever the message was made of. */
export function refusalText({ reason, message, hint }: Refusal): string {
  const isFailure = reason.startsWith('upstream') || (reason.startsWith('dns.') && reason !== 'dns.flood')
  const lines = [
    `${isFailure ? 'AgentPod could not get through' : 'AgentPod did not let this pass'}: ${message} [${reason}]`,
    ...(hint ? [`What to do: ${hint}.`] : []),
    'Nothing was sent. Trying again will give the same answer until the rules of this sandbox change.',
  ]
  const shown = isFailure ? lines.slice(0, -1) : lines
  return `${shown.map((line) => line.replace(/[^ -~]/g, '?')).join('\n')}\n`
}

export function refusalHeaders(refusal: Refusal, body: string): [string, string][] {
  return [
    ['Content-Type', 'text/plain; charset=utf-8'],
    ['Content-Length', String(Buffer.byteLength(body))],
    ['X-AgentPod-Refused', refusal.reason],
    ['Connection', 'close'],
  ]
}

/** A whole response: some clients wait forever for the end of one without a length. */
export function refusalResponse(refusal: Refusal): string {
  const body = refusalText(refusal)
  const headers = refusalHeaders(refusal, body).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${refusal.status} ${PHRASES[refusal.status]}\r\n${headers.join('')}\r\n${body}`
}

export function phraseOf(status: RefusalStatus): string {
  return PHRASES[status]
}
