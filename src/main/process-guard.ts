/**
 * Handles errors that passed every other handler. A connection reset is logged and ignored. Anything else may
 * have left a half-made change in memory, so the server exits, and the next one starts from the state on
 * disk. Sandboxes run on meanwhile. See docs/adr/0003-front-doors.md.
 */
import type { Log } from '../telemetry/log.ts'

/** Codes that mean that a peer closed its connection; our state is not affected. */
const HANG_UPS = new Set([
  'ABORT_ERR',
  'ECONNABORTED',
  'ECONNRESET',
  'EPIPE',
  'ERR_HTTP_HEADERS_SENT',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_PREMATURE_CLOSE',
  'ERR_STREAM_WRITE_AFTER_END',
])

/** Lets a supervisor tell it from a failed start. */
const EXIT_CODE = 70
const STOP_WITHIN_MS = 3000

export interface GuardParts {
  readonly log: Log
  stop(): Promise<void>
}

export function guardProcess({ log, stop }: GuardParts): Disposable {
  const leave = (): void => process.exit(EXIT_CODE)
  const fall = (kind: string, error: unknown): void => {
    if (isHangUp(error)) {
      log.warn(`ignored: ${kind}`, { error })
      return
    }
    log.error(`leaving: ${kind}`, { error })
    process.exitCode = EXIT_CODE
    setTimeout(leave, STOP_WITHIN_MS).unref()
    stop().then(leave, leave)
  }
  const onException = (error: unknown): void => fall('uncaught exception', error)
  const onRejection = (error: unknown): void => fall('unhandled rejection', error)
  process.on('uncaughtException', onException)
  process.on('unhandledRejection', onRejection)
  return {
    [Symbol.dispose]() {
      process.off('uncaughtException', onException)
      process.off('unhandledRejection', onRejection)
    },
  }
}

export function isHangUp(error: unknown): boolean {
  const code = (error as { code?: unknown } | undefined | null)?.code
  return typeof code === 'string' && HANG_UPS.has(code)
}
