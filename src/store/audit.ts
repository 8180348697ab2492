/** The table of audit entries, in the database of events. */
import type { DatabaseSync } from 'node:sqlite'
import type { AuditAction, AuditEntry } from '../core/audit.ts'

export interface AuditStore {
  append(entry: Omit<AuditEntry, 'seq'>): void
  /** Entries after `after`, oldest first. */
  list(o: { readonly after: number; readonly limit: number }): AuditEntry[]
}

export function auditStore(db: DatabaseSync): AuditStore {
  const insert = db.prepare('INSERT INTO audit (at, actor, action, subject, data) VALUES (?,?,?,?,?)')
  const select = db.prepare('SELECT * FROM audit WHERE seq > ? ORDER BY seq LIMIT ?')
  return {
    append({ at, actor, action, subject, data }) {
      insert.run(at, actor, action, subject, JSON.stringify(data))
    },
    list: ({ after, limit }) =>
      select.all(after, limit).map((row) => ({
        seq: Number(row['seq']),
        at: Number(row['at']),
        actor: String(row['actor']),
        action: String(row['action']) as AuditAction,
        subject: String(row['subject']),
        data: JSON.parse(String(row['data'])),
      })),
  }
}
