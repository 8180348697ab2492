/** Our errors as HTTP: the one place where a code becomes a status. */
import { type AgentPodError, asAgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'

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
    /** Names the log line of an internal failure. */
    readonly incident?: string | undefined
  }
}

export function errorStatus(error: AgentPodError): number {
  return REASON_STATUS[error.reason] ?? STATUS[error.code]
}

/** Whole seconds until it is worth to ask again, where the error says so. */
export function retryAfter(thrown: unknown): string | undefined {
  if (!isAgentPodError(thrown)) return undefined
  const { retry } = thrown
  return typeof retry === 'object' ? String(Math.max(1, Math.ceil(retry.afterMs / 1000))) : undefined
}

/** What a client may know. An internal failure is named by its incident; its text stays in the log. */
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
        message: isInternal
          ? `something went wrong inside AgentPod (incident ${incident ?? 'unknown'})`
          : error.message,
        hint: isInternal
          ? 'the server log has the details: logs/server.log in the state directory'
          : error.hint,
        details: isInternal || Object.keys(error.details).length === 0 ? undefined : error.details,
        incident: isInternal ? incident : undefined,
      },
    },
  }
}
