/** The table of volumes. Only `engine/volumes/volume-registry.ts` writes rows. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import { AgentPodError } from '../core/error.ts'
import type { VolumeId } from '../core/id.ts'
import type { Volume, VolumeState } from '../core/volume/volume.ts'
import { sqliteError } from './database.ts'

export interface VolumeStore {
  /** `already_exists` if the name is taken. */
  insert(volume: Volume): void
  update(volume: Volume): void
  remove(id: VolumeId): void
  /** Oldest first. */
  all(): Volume[]
}

const COLUMNS = 'id, owner, name, provider, state, size_mib, volume_limit, created_at'

export function volumeStore(db: DatabaseSync): VolumeStore {
  const insert = db.prepare(`INSERT INTO volumes (${COLUMNS}) VALUES (?,?,?,?,?,?,?,?)`)
  const update = db.prepare('UPDATE volumes SET state=?, volume_limit=? WHERE id=?')
  const remove = db.prepare('DELETE FROM volumes WHERE id = ?')
  const all = db.prepare(`SELECT ${COLUMNS} FROM volumes ORDER BY created_at, id`)
  return {
    insert(v) {
      try {
        insert.run(v.id, v.owner, v.name, v.provider, v.state, v.sizeMib ?? null, json(v.limit), v.createdAt)
      } catch (error) {
        throw insertError(error, v)
      }
    },
    update({ id, state, limit }) {
      try {
        update.run(state, json(limit), id)
      } catch (error) {
        throw sqliteError(error, 'cannot save the volume')
      }
    },
    remove(id) {
      try {
        remove.run(id)
      } catch (error) {
        throw sqliteError(error, 'cannot remove the volume')
      }
    },
    all: () => all.all().map(fromRow),
  }
}

function json(value: object | undefined): string | null {
  return value ? JSON.stringify(value) : null
}

function fromRow(row: Record<string, SQLOutputValue>): Volume {
  const limit = row['volume_limit']
  const size = row['size_mib']
  return {
    id: String(row['id']) as VolumeId,
    owner: String(row['owner']),
    name: String(row['name']),
    provider: String(row['provider']),
    state: String(row['state']) as VolumeState,
    sizeMib: size === null ? undefined : Number(size),
    limit: limit === null ? undefined : JSON.parse(String(limit)),
    createdAt: Number(row['created_at']),
  }
}

function insertError(error: unknown, { name }: Volume): AgentPodError {
  if (error instanceof Error && error.message.includes('UNIQUE constraint failed: volumes.owner')) {
    return new AgentPodError({
      code: 'already_exists',
      reason: 'volume.name_taken',
      message: `there is already a volume named ${name}`,
      hint: `use it, choose another name, or run \`agentpod volume rm ${name}\` first`,
    })
  }
  return sqliteError(error, 'cannot save the volume')
}
