import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import { ISOLATIONS, type Isolation } from '../core/capability.ts'
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
  /** The lowest isolation of a key's sandboxes; undefined for any, and for an owner that is no key. */
  isolationOf(id: string): Isolation | undefined
}

export function keyStore(db: DatabaseSync): KeyStore {
  const insert = db.prepare(
    'INSERT INTO keys (id, name, scope, hash, created_at, expires_at, revoked_at, network, isolation) VALUES (?,?,?,?,?,?,?,?,?)',
  )
  const revoke = db.prepare('UPDATE keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL')
  const isolation = db.prepare('SELECT isolation FROM keys WHERE id = ?')
  const all = db.prepare('SELECT * FROM keys ORDER BY created_at, id')
  return {
    insert(key) {
      try {
        const { id, name, scope, hash, createdAt, expiresAt, revokedAt, network } = key
        const limits = [JSON.stringify(network), key.isolation ?? null]
        insert.run(id, name, scope, hash, createdAt, expiresAt ?? null, revokedAt ?? null, ...limits)
      } catch (error) {
        throw sqliteError(error, 'cannot save the key')
      }
    },
    revoke(id, at) {
      revoke.run(at, id)
    },
    all: () => all.all().map(fromRow),
    isolationOf: (id) => levelOf(isolation.get(id)?.['isolation']),
  }
}

/** A level of a later version is more than this version can judge, so the strongest one is required. */
function levelOf(value: SQLOutputValue | undefined): Isolation | undefined {
  if (value === null || value === undefined) return undefined
  return ISOLATIONS.find((level) => level === value) ?? ISOLATIONS.at(-1)
}

function fromRow(row: Record<string, SQLOutputValue>): StoredKey {
  const time = (column: string): number | undefined =>
    row[column] === null ? undefined : Number(row[column])
  return {
    id: String(row['id']),
    name: String(row['name']),
    scope: String(row['scope']) as Scope,
    network: typeof row['network'] === 'string' ? JSON.parse(row['network']) : DEFAULT_CAP,
    isolation: levelOf(row['isolation']),
    hash: String(row['hash']),
    createdAt: Number(row['created_at']),
    expiresAt: time('expires_at'),
    revokedAt: time('revoked_at'),
  }
}
