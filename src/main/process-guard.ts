/**
 * The last net under the server. What falls this far went past every handler: a peer that hung up at a bad moment is written
 * down and passed over; anything else may have left half a change in memory, so the server leaves and the next one starts from what
 * is on disk. Sandboxes live on meanwhile. See docs/adr/0003-front-doors.md.
 */
import type { Log } from '../telemetry/log.ts'

/** Says that the other end of some connection is gone: nothing of ours is in doubt. */
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

/** So that whoever watches can tell it from a start that failed. */
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
      log.warn(`passed over: ${kind}`, { error })
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
