/** The parents of snapshots as a tree of lines. */
import type { Snapshot } from '../../client/snapshots.ts'

export interface SnapshotBranch {
  readonly snapshot: Snapshot
  /** The indentation of its line. */
  readonly prefix: string
  readonly note?: string | undefined
}

/**
 * Oldest first, children below their parent. A snapshot whose parent is missing starts a tree and says so.
 */
export function lineage(snapshots: readonly Snapshot[]): SnapshotBranch[] {
  const known = new Set(snapshots.map(({ id }) => id))
  const children = new Map<string | undefined, Snapshot[]>()
  for (const snapshot of [...snapshots].sort(byAge)) {
    const { parentId } = snapshot
    const parent = parentId !== null && known.has(parentId) ? parentId : undefined
    children.set(parent, [...(children.get(parent) ?? []), snapshot])
  }
  const branches: SnapshotBranch[] = []
  const draw = (snapshot: Snapshot, before: string, mark: string, below: string): void => {
    const isOrphan = snapshot.parentId !== null && !known.has(snapshot.parentId)
    const note = isOrphan ? `from ${snapshot.parentId}, which was removed` : undefined
    branches.push({ snapshot, prefix: before + mark, note })
    const own = children.get(snapshot.id) ?? []
    own.forEach((child, i) => {
      const isLast = i === own.length - 1
      draw(child, before + below, isLast ? '└─ ' : '├─ ', isLast ? '   ' : '│  ')
    })
  }
  for (const root of children.get(undefined) ?? []) draw(root, '', '', '')
  return branches
}

function byAge(a: Snapshot, b: Snapshot): number {
  return Date.parse(a.createdAt) - Date.parse(b.createdAt) || (a.id < b.id ? -1 : 1)
}
