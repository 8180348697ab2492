/** The table of groups. Only `engine/groups/group-registry.ts` writes rows. */
import type { DatabaseSync, SQLOutputValue } from 'node:sqlite'
import { AgentPodError } from '../core/error.ts'
import type { Group, GroupState } from '../core/group/group.ts'
import type { GroupId } from '../core/id.ts'
import { sqliteError } from './database.ts'

export interface GroupStore {
  /** `already_exists` if the name is taken. */
  insert(group: Group): void
  update(group: Group): void
  remove(id: GroupId): void
  /** Oldest first. */
  all(): Group[]
}

const COLUMNS = 'id, owner, name, labels, state, members, created_at'

export function groupStore(db: DatabaseSync): GroupStore {
  const insert = db.prepare(`INSERT INTO groups (${COLUMNS}) VALUES (?,?,?,?,?,?,?)`)
  const update = db.prepare('UPDATE groups SET state=?, members=? WHERE id=?')
  const remove = db.prepare('DELETE FROM groups WHERE id = ?')
  const all = db.prepare(`SELECT ${COLUMNS} FROM groups ORDER BY created_at, id`)
  return {
    insert({ id, owner, name, labels, state, members, createdAt }) {
      try {
        insert.run(id, owner, name, JSON.stringify(labels), state, JSON.stringify(members), createdAt)
      } catch (error) {
        throw insertError(error, name)
      }
    },
    update({ id, state, members }) {
      try {
        update.run(state, JSON.stringify(members), id)
      } catch (error) {
        throw sqliteError(error, 'cannot save the group')
      }
    },
    remove(id) {
      try {
        remove.run(id)
      } catch (error) {
        throw sqliteError(error, 'cannot remove the group')
      }
    },
    all: () => all.all().map(fromRow),
  }
}

function fromRow(row: Record<string, SQLOutputValue>): Group {
  return {
    id: String(row['id']) as GroupId,
    owner: String(row['owner']),
    name: String(row['name']),
    labels: JSON.parse(String(row['labels'])),
    state: String(row['state']) as GroupState,
    members: JSON.parse(String(row['members'])),
    createdAt: Number(row['created_at']),
  }
}

function insertError(error: unknown, name: string): AgentPodError {
  if (error instanceof Error && error.message.includes('UNIQUE constraint failed: groups.owner')) {
    return new AgentPodError({
      code: 'already_exists',
      reason: 'group.name_taken',
      message: `there is already a group named ${name}`,
      hint: `choose another name, or run \`agentpod group destroy ${name}\` first`,
    })
  }
  return sqliteError(error, 'cannot save the group')
}
