/** Pages of snapshots, newest first. All records are in memory. */
import { invalid } from '../../core/error.ts'
import { isSnapshotId } from '../../core/id.ts'
import type { Snapshot } from '../../core/snapshot.ts'

export interface SnapshotPageRequest {
  readonly labels: Readonly<Record<string, string>>
  readonly name?: string | undefined
  readonly sandboxId?: string | undefined
  readonly limit: number
  /** The `next` of the page before. */
  readonly after?: string | undefined
}

export interface SnapshotPage {
  readonly snapshots: readonly Snapshot[]
  readonly next: string | undefined
}

type Place = { readonly createdAt: number; readonly id: string }

export function snapshotPage(all: readonly Snapshot[], o: SnapshotPageRequest): SnapshotPage {
  const wanted = Object.entries(o.labels)
  const before = o.after === undefined ? undefined : placeOf(o.after)
  const found = all
    .filter(
      (snapshot) =>
        (o.name === undefined || snapshot.name === o.name) &&
        (o.sandboxId === undefined || snapshot.sandboxId === o.sandboxId) &&
        wanted.every(([key, value]) => snapshot.labels[key] === value) &&
        (!before || compare(snapshot, before) < 0),
    )
    .sort((a, b) => compare(b, a))
  const snapshots = found.slice(0, o.limit)
  const last = found.length > o.limit ? snapshots.at(-1) : undefined
  return { snapshots, next: last && `${last.createdAt}-${last.id}` }
}

function compare(a: Place, b: Place): number {
  return a.createdAt - b.createdAt || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0)
}

function placeOf(cursor: string): Place {
  const [, at, id = ''] = /^(\d{1,16})-([a-z0-9]+)$/.exec(cursor) ?? []
  if (at === undefined || !isSnapshotId(id))
    throw invalid('page.after', 'after must be the agentpod-next header of the page before')
  return { createdAt: Number(at), id }
}
