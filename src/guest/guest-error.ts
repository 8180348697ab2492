/** Errors of the connection into a sandbox, and of calls inside. */
import { AgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'

/** The reason of an error that podd itself answered, as opposed to an error of the connection. */
export const GUEST_REFUSED = 'guest.said'

/** Codes that mean the connection failed, whatever the call was. */
const CONNECTION_CODES: readonly ErrorCode[] = ['unavailable', 'canceled', 'data_loss', 'internal']

/**
 * Translates a guest's error for work that the server itself does inside. A `not_found` from inside must not
 * look like an unknown sandbox, so it becomes `failed_precondition` with reason `inside.failed`.
 */
export function insideError(error: unknown, signal: AbortSignal): AgentPodError {
  if (!isAgentPodError(error)) return signal.aborted ? canceled(error) : connectionLost(error)
  if (error.reason !== GUEST_REFUSED && CONNECTION_CODES.includes(error.code)) {
    return signal.aborted && error.code !== 'canceled' ? canceled(error) : error
  }
  if (error.code === 'deadline_exceeded') return late(error)
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'inside.failed',
    message: `the call failed inside the sandbox: ${error.message}`,
    details: { said: error.code },
    cause: error,
  })
}

function late(cause: AgentPodError): AgentPodError {
  const message = 'the command did not end in time'
  return new AgentPodError({ code: 'deadline_exceeded', reason: 'inside.late', message, cause })
}

export function malformedAnswer(cause: unknown): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'guest.protocol',
    message: 'the sandbox sent a malformed answer',
    cause,
  })
}

export function canceled(cause: unknown): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'the call was canceled', cause })
}

export function connectionLost(cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'stream.cut',
    message: 'the connection into the sandbox was cut',
    cause,
  })
}
