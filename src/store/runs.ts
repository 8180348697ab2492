/** The table of runs. Rows are written by `runs/` alone. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import type { Run } from '../core/run.ts'
import { sqliteError } from './database.ts'

export interface RunQuery {
  /** All owners if left out. */
  readonly owner?: string | undefined
  /** The key of a project. */
  readonly project?: string | undefined
  readonly group?: string | undefined
  readonly limit: number
}

export interface RunStore {
  /** `plan` is JSON: the request, needed to continue the run. */
  insert(run: Run, plan: object): void
  update(run: Run): void
  remove(id: string): void
  get(id: string): Run | undefined
  plan(id: string): unknown
  /** Newest first. */
  list(o: RunQuery): Run[]
  /** Runs that have not ended, oldest first. */
  unfinished(): Run[]
  /** Ended runs whose sandbox is kept, oldest first. */
  kept(): Run[]
}

export function runStore(db: DatabaseSync): RunStore {
  const insert = db.prepare(
    'INSERT INTO runs (id, owner, project_key, group_id, is_ended, created_at, record, plan) VALUES (?,?,?,?,?,?,?,?)',
  )
  const update = db.prepare('UPDATE runs SET is_ended = ?, record = ? WHERE id = ?')
  const remove = db.prepare('DELETE FROM runs WHERE id = ?')
  const get = db.prepare('SELECT record FROM runs WHERE id = ?')
  const plan = db.prepare('SELECT plan FROM runs WHERE id = ?')
  const list = db.prepare(
    `SELECT record FROM runs WHERE (?1 IS NULL OR owner = ?1) AND (?2 IS NULL OR project_key = ?2)
     AND (?3 IS NULL OR group_id = ?3) ORDER BY created_at DESC, id DESC LIMIT ?4`,
  )
  const unfinished = db.prepare('SELECT record FROM runs WHERE is_ended = 0 ORDER BY created_at, id')
  const kept = db.prepare(
    `SELECT record FROM runs WHERE is_ended = 1 AND json_extract(record, '$.keptUntil') IS NOT NULL ORDER BY created_at, id`,
  )
  const safely = <T>(work: () => T): T => {
    try {
      return work()
    } catch (error) {
      throw sqliteError(error, 'cannot save the run')
    }
  }
  return {
    insert: (run, content) =>
      safely(() => {
        insert.run(
          run.id,
          run.owner,
          run.project?.key ?? null,
          run.group ?? null,
          run.state === 'ended' ? 1 : 0,
          run.createdAt,
          JSON.stringify(run),
          JSON.stringify(content),
        )
      }),
    update: (run) =>
      safely(() => void update.run(run.state === 'ended' ? 1 : 0, JSON.stringify(run), run.id)),
    remove: (id) => safely(() => void remove.run(id)),
    get: (id) => runOf(get.get(id)),
    plan: (id) => {
      const row = plan.get(id)
      return row && JSON.parse(String(row['plan']))
    },
    list: ({ owner, project, group, limit }) =>
      list.all(owner ?? null, project ?? null, group ?? null, limit).flatMap((row) => runOf(row) ?? []),
    unfinished: () => unfinished.all().flatMap((row) => runOf(row) ?? []),
    kept: () => kept.all().flatMap((row) => runOf(row) ?? []),
  }
}

/** JSON has no undefined: a missing field is undefined. */
function runOf(row: Record<string, SQLOutputValue> | undefined): Run | undefined {
  return row && (JSON.parse(String(row['record'])) as Run)
}
