/** Appended facts, in a database of their own: losing the last line in a power cut costs nobody a sandbox. */
import type { DatabaseSync } from 'node:sqlite'
import type { EventType, SandboxEvent } from '../core/event.ts'
import type { Migration } from './database.ts'

export const EVENT_MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    sql: `
      CREATE TABLE events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        sandbox_id TEXT NOT NULL,
        type TEXT NOT NULL,
        data TEXT NOT NULL
      ) STRICT;
      CREATE INDEX events_sandbox ON events (sandbox_id, seq);
    `,
  },
  {
    version: 2,
    sql: `
      CREATE TABLE audit (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        actor TEXT NOT NULL,
        action TEXT NOT NULL,
        subject TEXT NOT NULL,
        data TEXT NOT NULL
      ) STRICT;
    `,
  },
]

export interface EventStore {
  append(event: Omit<SandboxEvent, 'seq'>): SandboxEvent
  /** Events of one sandbox after `after`, oldest first. */
  of(sandboxId: string, o: { after: number; limit: number }): SandboxEvent[]
}

export function eventStore(db: DatabaseSync): EventStore {
  const insert = db.prepare('INSERT INTO events (at, sandbox_id, type, data) VALUES (?,?,?,?)')
  const select = db.prepare('SELECT * FROM events WHERE sandbox_id = ? AND seq > ? ORDER BY seq LIMIT ?')
  return {
    append(event) {
      const { lastInsertRowid } = insert.run(
        event.at,
        event.sandboxId,
        event.type,
        JSON.stringify(event.data),
      )
      return { ...event, seq: Number(lastInsertRowid) }
    },
    of: (sandboxId, o) =>
      select.all(sandboxId, o.after, o.limit).map((row) => ({
        seq: Number(row['seq']),
        at: Number(row['at']),
        sandboxId: String(row['sandbox_id']),
        type: String(row['type']) as EventType,
        data: JSON.parse(String(row['data'])),
      })),
  }
}
