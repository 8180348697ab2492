import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import { DEFAULT_CAP, type Key, type Scope } from '../core/key.ts'
import { sqliteError } from './database.ts'

/** A key with the SHA-256 of its secret. Secrets are random and long, so a slow hash would add nothing. */
export interface StoredKey extends Key {
  readonly hash: string
}

export interface KeyStore {
  insert(key: StoredKey): void
  revoke(id: string, at: number): void
  all(): StoredKey[]
}

export function keyStore(db: DatabaseSync): KeyStore {
  const insert = db.prepare(
    'INSERT INTO keys (id, name, scope, hash, created_at, expires_at, revoked_at, network) VALUES (?,?,?,?,?,?,?,?)',
  )
  const revoke = db.prepare('UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL')
  const all = db.prepare('SELECT * FROM keys ORDER BY created_at, id')
  return {
    insert(key) {
      try {
        const { id, name, scope, hash, createdAt, expiresAt, revokedAt, network } = key
        const cap = JSON.stringify(network)
        insert.run(id, name, scope, hash, createdAt, expiresAt ?? null, revokedAt ?? null, cap)
      } catch (error) {
        throw sqliteError(error, 'cannot save the key')
      }
    },
    revoke(id, at) {
      revoke.run(at, id)
    },
    all: () => all.all().map(fromRow),
  }
}

function fromRow(row: Record<string, SQLOutputValue>): StoredKey {
  const time = (column: string): number | undefined =>
    row[column] === null ? undefined : Number(row[column])
  return {
    id: String(row['id']),
    name: String(row['name']),
    scope: String(row['scope']) as Scope,
    network: typeof row['network'] === 'string' ? JSON.parse(row['network']) : DEFAULT_CAP,
    hash: String(row['hash']),
    createdAt: Number(row['created_at']),
    expiresAt: time('expires_at'),
    revokedAt: time('revoked_at'),
  }
}
