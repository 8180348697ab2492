/**
 * Turns error answers of the daemon into AgentPodErrors. SECURITY: their text is cut, and control characters
 * are replaced.
 */
import { AgentPodError, type ErrorCode } from '../../../core/error.ts'
import { replaceHidden } from '../../../util/hidden-characters.ts'

const CODES: Readonly<Record<number, ErrorCode>> = {
  400: 'invalid_argument',
  403: 'permission_denied',
  404: 'not_found',
  409: 'conflict',
  502: 'unavailable',
  503: 'unavailable',
  504: 'unavailable',
}

/** Undefined if the daemon did not answer at all. */
export function responseError(error: unknown): AgentPodError | undefined {
  const { statusCode, message } = (error ?? {}) as { statusCode?: unknown; message?: unknown }
  if (typeof statusCode !== 'number') return undefined
  const words = printableMessage(message)
  if (/no space left on device|disk quota exceeded/i.test(words))
    return new AgentPodError({
      code: 'resource_exhausted',
      reason: 'disk.full',
      message: 'the disk of the Docker daemon is full',
      hint: 'free disk space (`docker system df` shows its use) and try again',
    })
  return new AgentPodError({
    code: CODES[statusCode] ?? 'failed_precondition',
    reason: `docker.status_${statusCode}`,
    message: `Docker: ${words}`,
    details: { status: statusCode },
  })
}

export function printableMessage(message: unknown): string {
  const text = String(message).replace(/^\(HTTP code \d+\) [^-]*- /, '')
  return replaceHidden(text.slice(0, 500)).trim()
}
