/** What goes wrong on the way into a sandbox, and inside. */
import { AgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'

/** The reason of an error that is podd's own refusal, and not one of the way to it. */
export const GUEST_SAID = 'guest.said'

/** These say that the way in failed, whatever was asked. */
const WAY_IN: readonly ErrorCode[] = ['unavailable', 'canceled', 'data_loss', 'internal']

/**
 * A guest's error as one of the server's own work inside. `not_found` of a program inside is not a sandbox that nobody
 * knows: it becomes `failed_precondition` with reason `inside.failed`.
 */
export function insideError(error: unknown, signal: AbortSignal): AgentPodError {
  if (!isAgentPodError(error)) return signal.aborted ? canceled(error) : cut(error)
  if (error.reason !== GUEST_SAID && WAY_IN.includes(error.code)) {
    return signal.aborted && error.code !== 'canceled' ? canceled(error) : error
  }
  if (error.code === 'deadline_exceeded') return late(error)
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'inside.failed',
    message: `the sandbox could not do it: ${error.message}`,
    details: { said: error.code },
    cause: error,
  })
}

function late(cause: AgentPodError): AgentPodError {
  const message = 'its time was over before it ended'
  return new AgentPodError({ code: 'deadline_exceeded', reason: 'inside.late', message, cause })
}

export function malformed(cause: unknown): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'guest.protocol',
    message: 'the sandbox answered in a way that is not known',
    cause,
  })
}

export function canceled(cause: unknown): AgentPodError {
  return new AgentPodError({ code: 'canceled', reason: 'canceled', message: 'it was canceled', cause })
}

export function cut(cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'stream.cut',
    message: 'the connection into the sandbox was cut',
    cause,
  })
}
