/** What two-way sync remembers about a path, and how a new stat of it is read against that. */
import { ABSENT, BLOCKED, type PathState } from './decide-path.ts'
import type { PathStat } from './side.ts'

/** Remembered about one path. Without a stamp, the file has to be read to know whether it changed. */
export interface PathRecord {
  base: PathState
  hostStamp?: string | undefined
  insideStamp?: string | undefined
  /** Set for a file that was sent at the start and not yet checked in the sandbox. */
  sent?: { readonly sizeBytes: number; readonly seconds: number } | undefined
  /** Key of the sandbox's state that is not copied here; the user was told once. */
  held?: string | undefined
  /** Key of the sandbox's state that has a copy here. */
  saved?: string | undefined
}

/** The record of a path that was sent at the start; undefined if it is neither a file nor a link. */
export function recordOfSent(stat: PathStat): PathRecord | undefined {
  if (stat.kind === 'link') return { base: { kind: 'link', target: stat.target }, hostStamp: stat.stamp }
  if (stat.kind !== 'file') return undefined
  return {
    base: { kind: 'file', hash: undefined, isExecutable: stat.isExecutable },
    hostStamp: stat.stamp,
    sent: { sizeBytes: stat.sizeBytes, seconds: Math.floor(stat.modifiedMs / 1000) },
  }
}

/** A file that still has the size and time it was sent with is unchanged: every write sets another time. */
export function confirmSent(entry: PathRecord, stat: PathStat): void {
  const { sent, base } = entry
  if (!sent || stat.kind !== 'file' || base.kind !== 'file') return
  const isAsSent =
    stat.sizeBytes === sent.sizeBytes &&
    stat.modifiedMs === sent.seconds * 1000 &&
    stat.isExecutable === base.isExecutable
  if (isAsSent) entry.insideStamp = stat.stamp
  entry.sent = undefined
}

export function learnHash(entry: PathRecord, hash: string | undefined): void {
  if (entry.base.kind === 'file' && hash !== undefined) entry.base = { ...entry.base, hash }
}

/** Undefined if the file could not be read. */
export function pathStateOf(
  stat: PathStat,
  { base }: PathRecord,
  isNew: boolean,
  hash: string | undefined,
): PathState | undefined {
  if (stat.kind === 'absent') return ABSENT
  if (stat.kind === 'blocked') return BLOCKED
  if (stat.kind === 'link') return { kind: 'link', target: stat.target }
  if (!isNew) return base
  return hash === undefined ? undefined : { kind: 'file', hash, isExecutable: stat.isExecutable }
}

export function stampOf(stat: PathStat): string | undefined {
  return stat.kind === 'file' || stat.kind === 'link' ? stat.stamp : undefined
}
