/** The table of secrets. Values are sealed before they come here. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import type { Secret } from '../core/secret.ts'
import { sqliteError } from './database.ts'

export interface StoredSecret extends Secret {
  readonly sealed: string
}

export interface SecretStore {
  /** Inserts it, or replaces the one of the same owner and name. */
  put(secret: StoredSecret): void
  get(owner: string, name: string): StoredSecret | undefined
  /** By name. */
  of(owner: string): StoredSecret[]
  /** Whether there is any secret, of any owner. */
  hasAny(): boolean
  /** Returns whether there was one. */
  remove(owner: string, name: string): boolean
}

export function secretStore(db: DatabaseSync): SecretStore {
  const put = db.prepare(
    `INSERT INTO secrets (owner, name, variable, slot, sealed, version, created_at, rotated_at) VALUES (?,?,?,?,?,?,?,?)
     ON CONFLICT (owner, name) DO UPDATE SET variable = excluded.variable, slot = excluded.slot, sealed = excluded.sealed,
     version = excluded.version, rotated_at = excluded.rotated_at`,
  )
  const get = db.prepare('SELECT * FROM secrets WHERE owner = ? AND name = ?')
  const of = db.prepare('SELECT * FROM secrets WHERE owner = ? ORDER BY name')
  const any = db.prepare('SELECT 1 FROM secrets LIMIT 1')
  const remove = db.prepare('DELETE FROM secrets WHERE owner = ? AND name = ?')
  return {
    put({ owner, name, variable, slot, sealed, version, createdAt, rotatedAt }) {
      try {
        put.run(owner, name, variable, JSON.stringify(slot), sealed, version, createdAt, rotatedAt)
      } catch (error) {
        throw sqliteError(error, 'cannot save the secret')
      }
    },
    get(owner, name) {
      const row = get.get(owner, name)
      return row && fromRow(row)
    },
    of: (owner) => of.all(owner).map(fromRow),
    hasAny: () => any.get() !== undefined,
    remove: (owner, name) => remove.run(owner, name).changes > 0,
  }
}

function fromRow(row: Record<string, SQLOutputValue>): StoredSecret {
  return {
    owner: String(row['owner']),
    name: String(row['name']),
    variable: String(row['variable']),
    slot: JSON.parse(String(row['slot'])),
    sealed: String(row['sealed']),
    version: Number(row['version']),
    createdAt: Number(row['created_at']),
    rotatedAt: Number(row['rotated_at']),
  }
}
