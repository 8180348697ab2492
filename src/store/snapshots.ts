/** The table of snapshots. Only `engine/snapshots/snapshot-registry.ts` writes rows. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import { AgentPodError } from '../core/error.ts'
import type { SandboxId, SnapshotId } from '../core/id.ts'
import type { Snapshot, SnapshotState } from '../core/snapshot.ts'
import { sqliteError, transaction } from './database.ts'

export interface SnapshotStore {
  /** `already_exists` if the name is taken. */
  insert(snapshot: Snapshot): void
  update(snapshot: Snapshot): void
  /** Stores that temporary snapshots are kept, under their names, in one transaction. */
  keep(snapshots: readonly Snapshot[]): void
  remove(id: SnapshotId): void
  /** Oldest first. */
  all(): Snapshot[]
}

const COLUMNS = `id, owner, name, labels, provider, state, is_passing, sandbox_id, parent_id, spec, root, size_bytes, created_at, layer, memory`

export function snapshotStore(db: DatabaseSync): SnapshotStore {
  const insert = db.prepare(`INSERT INTO snapshots (${COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`)
  const update = db.prepare(
    `UPDATE snapshots SET state=?, root=?, size_bytes=?, layer=?, memory=? WHERE id=?`,
  )
  const keep = db.prepare('UPDATE snapshots SET name=?, is_passing=0 WHERE id=?')
  const remove = db.prepare('DELETE FROM snapshots WHERE id = ?')
  const all = db.prepare(`SELECT ${COLUMNS} FROM snapshots ORDER BY created_at, id`)
  return {
    insert(snapshot) {
      try {
        insert.run(...values(snapshot))
      } catch (error) {
        throw insertError(error, snapshot)
      }
    },
    update({ id, state, root, sizeBytes, layer, memory }) {
      try {
        update.run(state, json(root), sizeBytes, json(layer), json(memory), id)
      } catch (error) {
        throw sqliteError(error, 'cannot save the snapshot')
      }
    },
    keep(snapshots) {
      let at: Snapshot | undefined
      try {
        transaction(db, () => {
          for (at of snapshots) keep.run(at.name ?? null, at.id)
        })
      } catch (error) {
        throw at ? insertError(error, at) : sqliteError(error, 'cannot save the snapshots')
      }
    },
    remove(id) {
      try {
        remove.run(id)
      } catch (error) {
        throw sqliteError(error, 'cannot remove the snapshot')
      }
    },
    all: () => all.all().map(fromRow),
  }
}

function values(s: Snapshot): (string | number | null)[] {
  return [
    s.id,
    s.owner,
    s.name ?? null,
    JSON.stringify(s.labels),
    s.provider,
    s.state,
    s.isTemporary ? 1 : 0,
    s.sandboxId ?? null,
    s.parentId ?? null,
    JSON.stringify(s.spec),
    json(s.root),
    s.sizeBytes,
    s.createdAt,
    json(s.layer),
    json(s.memory),
  ]
}

function json(value: object | undefined): string | null {
  return value ? JSON.stringify(value) : null
}

function fromRow(row: Record<string, SQLOutputValue>): Snapshot {
  const text = (column: string): string | undefined =>
    row[column] === null ? undefined : String(row[column])
  const root = text('root')
  const layer = text('layer')
  const memory = text('memory')
  return {
    id: String(row['id']) as SnapshotId,
    owner: String(row['owner']),
    name: text('name'),
    labels: JSON.parse(String(row['labels'])),
    provider: String(row['provider']),
    state: String(row['state']) as SnapshotState,
    isTemporary: row['is_passing'] === 1,
    sandboxId: text('sandbox_id') as SandboxId | undefined,
    parentId: text('parent_id') as SnapshotId | undefined,
    spec: JSON.parse(String(row['spec'])),
    root: root === undefined ? undefined : JSON.parse(root),
    sizeBytes: Number(row['size_bytes']),
    createdAt: Number(row['created_at']),
    ...(memory !== undefined && { memory: JSON.parse(memory) }),
    ...(layer !== undefined && { layer: { owners: [], ...JSON.parse(layer) } }),
  }
}

function insertError(error: unknown, snapshot: Snapshot): AgentPodError {
  if (
    error instanceof Error &&
    error.message.includes('UNIQUE constraint failed: snapshots.owner, snapshots.name')
  ) {
    return new AgentPodError({
      code: 'already_exists',
      reason: 'snapshot.name_taken',
      message: `there is already a snapshot named ${snapshot.name}`,
      hint: `choose another name, or run \`agentpod snapshot rm ${snapshot.name}\` first`,
    })
  }
  return sqliteError(error, 'cannot save the snapshot')
}
