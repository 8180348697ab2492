/** The events of a sandbox as E2B's log entries. They contain no output of programs. */
import type { EventType, SandboxEvent } from '../../core/event.ts'
import type { LogsQuery } from './schema.ts'

const LEVELS = ['debug', 'info', 'warn', 'error'] as const
type Level = (typeof LEVELS)[number]

export interface LogEntry {
  readonly timestamp: string
  readonly level: Level
  readonly message: string
  readonly fields: Readonly<Record<string, string>>
}

const LEVEL_OF: Partial<Record<EventType, Level>> = { 'sandbox.failed': 'error' }
const DEFAULT_LIMIT = 1000

/** The entries after the cursor or, with direction `backward`, before it. */
export function logEntries(events: readonly SandboxEvent[], query: LogsQuery): LogEntry[] {
  const isBackward = query.direction === 'backward'
  const from = query.cursor ?? query.start
  const least = LEVELS.indexOf(query.level ?? 'debug')
  const chosen = events
    .filter(({ at }) => from === undefined || (isBackward ? at <= from : at >= from))
    .map(entry)
    .filter(({ level }) => LEVELS.indexOf(level) >= least)
    .filter(({ message }) => query.search === undefined || message.includes(query.search))
  return (isBackward ? chosen.reverse() : chosen).slice(0, query.limit ?? DEFAULT_LIMIT)
}

/** The older form: the same entries, and each again as a line. */
export function logsView(entries: readonly LogEntry[]): object {
  return {
    logs: entries.map((one) => ({ timestamp: one.timestamp, line: JSON.stringify(one) })),
    logEntries: entries,
  }
}

function entry(event: SandboxEvent): LogEntry {
  return {
    timestamp: new Date(event.at).toISOString(),
    level: LEVEL_OF[event.type] ?? 'info',
    message: event.type.replace('.', ' '),
    fields: Object.fromEntries(
      Object.entries(event.data)
        .filter(([, value]) => value !== undefined && value !== null)
        .map(([key, value]) => [key, typeof value === 'string' ? value : JSON.stringify(value)]),
    ),
  }
}
