/** Structured log lines, one JSON object each. Nothing leaves the machine. */
import type { Clock } from '../util/clock.ts'

export type LogFields = Readonly<Record<string, unknown>>

export interface Log {
  info(message: string, fields?: LogFields): void
  warn(message: string, fields?: LogFields): void
  error(message: string, fields?: LogFields): void
}

export function jsonLog(clock: Clock, write: (line: string) => void): Log {
  const emit = (level: string, message: string, fields: LogFields = {}): void => {
    write(
      `${JSON.stringify({ at: new Date(clock.now()).toISOString(), level, message, ...describeErrors(fields) })}\n`,
    )
  }
  return {
    info: (message, fields) => emit('info', message, fields),
    warn: (message, fields) => emit('warn', message, fields),
    error: (message, fields) => emit('error', message, fields),
  }
}

export const silentLog: Log = { info() {}, warn() {}, error() {} }

/** Logs an error that is deliberately ignored, so that all of them can be found. */
export function ignore(log: Log, error: unknown, why: string): void {
  log.warn(`ignored: ${why}`, { error })
}

function describeErrors(fields: LogFields): LogFields {
  return Object.fromEntries(
    Object.entries(fields).map(([key, value]) => [key, value instanceof Error ? describe(value) : value]),
  )
}

function describe(error: Error & { code?: unknown; reason?: unknown }): LogFields {
  const cause = error.cause instanceof Error ? describe(error.cause) : error.cause
  return { message: error.message, code: error.code, reason: error.reason, stack: error.stack, cause }
}
