/** What two-way sync remembers of a path, and what a look at it means by that. */
import { ABSENT, BLOCKED, type State } from './two-way-decide.ts'
import type { Mark } from './two-way-side.ts'

/** What is remembered of one path. A stamp that is missing means that a reading has to tell. */
export interface Entry {
  base: State
  hostStamp?: string | undefined
  insideStamp?: string | undefined
  /** Of what went in at the start and was not looked at inside yet. */
  sent?: { readonly sizeBytes: number; readonly seconds: number } | undefined
  /** What inside has and is not taken; it was said once. */
  held?: string | undefined
  /** What inside has and has a copy here. */
  saved?: string | undefined
}

/** Of what went in at the start; undefined for what is neither file nor link. */
export function sentEntry(mark: Mark): Entry | undefined {
  if (mark.kind === 'link') return { base: { kind: 'link', target: mark.target }, hostStamp: mark.stamp }
  if (mark.kind !== 'file') return undefined
  return {
    base: { kind: 'file', hash: undefined, isExecutable: mark.isExecutable },
    hostStamp: mark.stamp,
    sent: { sizeBytes: mark.sizeBytes, seconds: Math.floor(mark.modifiedMs / 1000) },
  }
}

/** A file that has the size and the time that it was sent with is what was sent. Anything that writes sets another time. */
export function adopt(entry: Entry, mark: Mark): void {
  const { sent, base } = entry
  if (!sent || mark.kind !== 'file' || base.kind !== 'file') return
  const isAsSent =
    mark.sizeBytes === sent.sizeBytes &&
    mark.modifiedMs === sent.seconds * 1000 &&
    mark.isExecutable === base.isExecutable
  if (isAsSent) entry.insideStamp = mark.stamp
  entry.sent = undefined
}

export function learn(entry: Entry, hash: string | undefined): void {
  if (entry.base.kind === 'file' && hash !== undefined) entry.base = { ...entry.base, hash }
}

/** Undefined where it could not be read. */
export function stateOf(
  mark: Mark,
  { base }: Entry,
  isNew: boolean,
  hash: string | undefined,
): State | undefined {
  if (mark.kind === 'absent') return ABSENT
  if (mark.kind === 'blocked') return BLOCKED
  if (mark.kind === 'link') return { kind: 'link', target: mark.target }
  if (!isNew) return base
  return hash === undefined ? undefined : { kind: 'file', hash, isExecutable: mark.isExecutable }
}

export function stampOf(mark: Mark): string | undefined {
  return mark.kind === 'file' || mark.kind === 'link' ? mark.stamp : undefined
}
