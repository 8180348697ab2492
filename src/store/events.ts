/**
 * Events, in their own database, which is synced less often: a lost line after a power cut costs no sandbox.
 */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import type { EventType, SandboxEvent } from '../core/event.ts'
import { type Migration, transaction } from './database.ts'

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
  // Decisions of all sandboxes, for audits.
  { version: 3, sql: 'CREATE INDEX events_type ON events (type, seq);' },
  // Events and progress of runs.
  {
    version: 4,
    sql: `
      CREATE TABLE run_events (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL,
        at INTEGER NOT NULL,
        body TEXT NOT NULL
      ) STRICT;
      CREATE INDEX run_events_run ON run_events (run_id, seq);
      CREATE TABLE run_progress (run_id TEXT PRIMARY KEY, data TEXT NOT NULL) STRICT, WITHOUT ROWID;
      CREATE TABLE run_input (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL,
        turn INTEGER NOT NULL,
        data BLOB NOT NULL
      ) STRICT;
      CREATE INDEX run_input_turn ON run_input (run_id, turn, seq);
    `,
  },
]

export interface EventStore {
  append(event: Omit<SandboxEvent, 'seq'>): SandboxEvent
  /** Appends several at once. Of the named type a sandbox keeps about its newest `most`. */
  appendAll(events: readonly Omit<SandboxEvent, 'seq'>[], keep: { type: EventType; most: number }): void
  /** Events of one type, of every sandbox, after `after`, oldest first. */
  ofType(type: EventType, o: { after: number; limit: number }): SandboxEvent[]
  /** Events of one sandbox after `after`, oldest first; of one type, if given. */
  of(sandboxId: string, o: { after: number; limit: number; type?: EventType | undefined }): SandboxEvent[]
}

const PRUNE_EVERY = 256
const MOST_REMEMBERED = 10_000

export function eventStore(db: DatabaseSync): EventStore {
  const insert = db.prepare('INSERT INTO events (at, sandbox_id, type, data) VALUES (?,?,?,?)')
  const select = db.prepare('SELECT * FROM events WHERE sandbox_id = ? AND seq > ? ORDER BY seq LIMIT ?')
  const selectType = db.prepare(
    'SELECT * FROM events WHERE sandbox_id = ? AND type = ? AND seq > ? ORDER BY seq LIMIT ?',
  )
  const selectAll = db.prepare('SELECT * FROM events WHERE type = ? AND seq > ? ORDER BY seq LIMIT ?')
  const prune = db.prepare(
    `DELETE FROM events WHERE sandbox_id = ? AND type = ? AND seq <=
     (SELECT seq FROM events WHERE sandbox_id = ? AND type = ? ORDER BY seq DESC LIMIT 1 OFFSET ?)`,
  )
  /** The number of events appended since the last pruning, by sandbox. */
  const unpruned = new Map<string, number>()
  const append = (event: Omit<SandboxEvent, 'seq'>): SandboxEvent => {
    const { lastInsertRowid } = insert.run(event.at, event.sandboxId, event.type, JSON.stringify(event.data))
    return { ...event, seq: Number(lastInsertRowid) }
  }
  return {
    append,
    appendAll(events, { type, most }) {
      transaction(db, () => {
        for (const event of events) {
          append(event)
          const { sandboxId } = event
          const count = (unpruned.get(sandboxId) ?? PRUNE_EVERY - 1) + 1
          unpruned.set(sandboxId, count % PRUNE_EVERY)
          if (count >= PRUNE_EVERY) prune.run(sandboxId, type, sandboxId, type, most)
        }
      })
      if (unpruned.size > MOST_REMEMBERED) unpruned.clear()
    },
    ofType: (type, o) => selectAll.all(type, o.after, o.limit).map(fromRow),
    of: (sandboxId, o) =>
      (o.type === undefined
        ? select.all(sandboxId, o.after, o.limit)
        : selectType.all(sandboxId, o.type, o.after, o.limit)
      ).map(fromRow),
  }
}

function fromRow(row: Record<string, SQLOutputValue>): SandboxEvent {
  return {
    seq: Number(row['seq']),
    at: Number(row['at']),
    sandboxId: String(row['sandbox_id']),
    type: String(row['type']) as EventType,
    data: JSON.parse(String(row['data'])),
  }
}
