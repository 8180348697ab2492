/** E2B's snapshots: found by id or name, listed newest first in pages. */
import { invalid, isAgentPodError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import type { Engine } from '../../engine/engine.ts'
import { type SnapshotPage, snapshotPage } from '../view/snapshot-page.ts'
import type { SnapshotsQuery } from './schema.ts'
import { withoutTag } from './template.ts'

const DEFAULT_LIMIT = 100

export function findSnapshot(engine: Engine, ref: string, who: Principal): Snapshot | undefined {
  try {
    return engine.snapshots.get(ref, who)
  } catch (error) {
    if (isAgentPodError(error, 'not_found')) return undefined
    throw error
  }
}

export function snapshotsOf(all: readonly Snapshot[], query: SnapshotsQuery): SnapshotPage {
  const name = query.name === undefined ? undefined : withoutTag(query.name)
  const named = name === undefined ? all : all.filter((one) => one.name === name || one.id === name)
  const { snapshots, next } = snapshotPage(named, {
    labels: {},
    sandboxId: query.sandboxID,
    limit: query.limit ?? DEFAULT_LIMIT,
    after: query.nextToken === undefined ? undefined : parseToken(query.nextToken),
  })
  return { snapshots, next: next && Buffer.from(next).toString('base64url') }
}

function parseToken(token: string): string {
  const after = Buffer.from(token, 'base64url').toString('latin1')
  if (/^\d{1,15}-[a-z0-9]{1,24}$/.test(after)) return after
  throw invalid('list.next_token', 'nextToken is not valid')
}
