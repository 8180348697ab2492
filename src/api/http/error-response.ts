/** Errors as HTTP answers: the only place where a code becomes a status. */
import { type AgentPodError, asAgentPodError, type ErrorCode, isAgentPodError } from '../../core/error.ts'

const STATUS: Record<ErrorCode, number> = {
  invalid_argument: 400,
  unauthenticated: 401,
  permission_denied: 403,
  policy_denied: 403,
  not_found: 404,
  already_exists: 409,
  conflict: 409,
  unsupported: 422,
  failed_precondition: 412,
  resource_exhausted: 429,
  deadline_exceeded: 504,
  canceled: 499,
  unavailable: 503,
  data_loss: 500,
  internal: 500,
}

const REASON_STATUS: Readonly<Record<string, number>> = {
  'disk.full': 507,
  'body.too_large': 413,
  'body.slow': 408,
  'port.broken': 502,
}

export interface ErrorBody {
  readonly error: {
    readonly code: ErrorCode
    readonly reason: string
    readonly message: string
    readonly hint?: string | undefined
    readonly details?: Readonly<Record<string, unknown>> | undefined
    /** The id of an internal failure in the server's log. */
    readonly incident?: string | undefined
  }
}

export function errorStatus(error: AgentPodError): number {
  return REASON_STATUS[error.reason] ?? STATUS[error.code]
}

/** The value of Retry-After in whole seconds, if the error has one. */
export function retryAfter(thrown: unknown): string | undefined {
  if (!isAgentPodError(thrown)) return undefined
  const { retry } = thrown
  return typeof retry === 'object' ? String(Math.max(1, Math.ceil(retry.afterMs / 1000))) : undefined
}

/** The body for a client. An internal failure shows only its incident id; the details stay in the log. */
export function errorBody(
  thrown: unknown,
  incident?: string,
): { status: number; body: ErrorBody; error: AgentPodError } {
  const error = asAgentPodError(thrown)
  const isInternal = error.code === 'internal'
  return {
    status: errorStatus(error),
    error,
    body: {
      error: {
        code: error.code,
        reason: error.reason,
        message: isInternal ? `internal error (incident ${incident ?? 'unknown'})` : error.message,
        hint: isInternal
          ? 'see the server log for details: logs/server.log in the state directory'
          : error.hint,
        details: isInternal || Object.keys(error.details).length === 0 ? undefined : error.details,
        incident: isInternal ? incident : undefined,
      },
    },
  }
}
