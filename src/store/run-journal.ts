/**
 * Events and progress of runs. They are written together, so a killed server never leaves one without the
 * other.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { RunEvent, RunEventBody } from '../core/run.ts'
import { sqliteError, transaction } from './database.ts'

export interface JournalEntry {
  readonly at: number
  readonly events: readonly RunEventBody[]
  /** JSON; replaces the progress before. */
  readonly progress: object
  /** Input for the agent, sent after this entry is written. */
  readonly input?: { readonly turn: number; readonly data: Buffer } | undefined
}

export interface RunJournal {
  write(runId: string, entry: JournalEntry): void
  progress(runId: string): unknown
  /** All input of a turn. */
  input(runId: string, turn: number): Buffer
  /** Oldest first. */
  events(runId: string, o: { readonly after: number; readonly limit: number }): RunEvent[]
  remove(runId: string): void
  /** Removes everything of runs that `isKnown` does not know. */
  forget(isKnown: (runId: string) => boolean): void
}

export function runJournal(db: DatabaseSync): RunJournal {
  const addEvent = db.prepare('INSERT INTO run_events (run_id, at, body) VALUES (?,?,?)')
  const setProgress = db.prepare(
    'INSERT INTO run_progress (run_id, data) VALUES (?,?) ON CONFLICT (run_id) DO UPDATE SET data = excluded.data',
  )
  const addInput = db.prepare('INSERT INTO run_input (run_id, turn, data) VALUES (?,?,?)')
  const progress = db.prepare('SELECT data FROM run_progress WHERE run_id = ?')
  const input = db.prepare('SELECT data FROM run_input WHERE run_id = ? AND turn = ? ORDER BY seq')
  const events = db.prepare('SELECT * FROM run_events WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?')
  const clear = ['run_events', 'run_progress', 'run_input'].map((table) =>
    db.prepare(`DELETE FROM ${table} WHERE run_id = ?`),
  )
  const all = db.prepare('SELECT run_id FROM run_progress')
  const remove = (runId: string): void =>
    transaction(db, () => {
      for (const one of clear) one.run(runId)
    })
  return {
    write(runId, entry) {
      try {
        transaction(db, () => {
          for (const body of entry.events) addEvent.run(runId, entry.at, JSON.stringify(body))
          if (entry.input) addInput.run(runId, entry.input.turn, entry.input.data)
          setProgress.run(runId, JSON.stringify(entry.progress))
        })
      } catch (error) {
        throw sqliteError(error, 'cannot save what the run did')
      }
    },
    progress(runId) {
      const row = progress.get(runId)
      return row && JSON.parse(String(row['data']))
    },
    input: (runId, turn) =>
      Buffer.concat(input.all(runId, turn).map(({ data }) => Buffer.from(data as Uint8Array))),
    events: (runId, { after, limit }) =>
      events.all(runId, after, limit).map((row) => ({
        seq: Number(row['seq']),
        at: Number(row['at']),
        runId,
        body: JSON.parse(String(row['body'])) as RunEventBody,
      })),
    remove,
    forget(isKnown) {
      for (const row of all.all()) {
        const runId = String(row['run_id'])
        if (!isKnown(runId)) remove(runId)
      }
    },
  }
}
