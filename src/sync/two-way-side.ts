/** What two-way sync asks of each of its two sides. */
import type { State } from './two-way-decide.ts'

/** A path as one look shows it. Two looks with one stamp saw the same; what is in a file takes a reading. */
export type Mark =
  | { readonly kind: 'absent' }
  | { readonly kind: 'blocked'; readonly isDirectory: boolean }
  | { readonly kind: 'link'; readonly target: string; readonly stamp: string }
  | {
      readonly kind: 'file'
      readonly sizeBytes: number
      readonly isExecutable: boolean
      readonly modifiedMs: number
      readonly stamp: string
    }

export const NOTHING: Mark = { kind: 'absent' }

/** Paths that may have changed, or word that some were missed. */
export type News = readonly string[] | 'all'

/** What became of one change. `changed`: somebody was there first, and nothing was done. */
export type Outcome =
  /** Without a stamp, a reading has to tell what is there by now. */
  | { readonly status: 'done'; readonly stamp: string | undefined; readonly state: State }
  | { readonly status: 'changed' }
  /** Nothing was done. `isInTheWay`: a file or a link stands where a directory must be. */
  | { readonly status: 'failed'; readonly why: string; readonly isInTheWay?: boolean | undefined }

export const CHANGED: Outcome = { status: 'changed' }

export type Content = AsyncIterable<Buffer>

export interface Side {
  /** Everything there is, by its path. A path that cannot be looked at is left out: that says nothing about it. */
  scan(): Promise<Map<string, Mark>>
  /** These paths as they are now. One that cannot be looked at is left out. */
  look(paths: readonly string[]): Promise<Map<string, Mark>>
  /** SHA-256 of files. One that cannot be read is left out. */
  hash(paths: readonly string[]): Promise<Map<string, string>>
  /** The bytes of a file; a link is never followed. */
  read(path: string): Promise<Content>
  /**
   * Tells of changes until it is disposed of. When `isWatching` is false after a scan, changes are found by scans alone.
   */
  watch(tell: (news: News) => void): Disposable
  readonly isWatching: boolean
}

export interface HostSide extends Side {
  /** Which of these paths are not part of the project, by the rules of this machine's git. */
  ignored(paths: readonly string[]): Promise<Set<string>>
  /** Makes a path this state, if it still is as `expected` says. */
  put(path: string, expected: Mark, state: State, content: () => Promise<Content>): Promise<Outcome>
  /** Writes beside a path, over nothing; answers the name. */
  putBeside(path: string, content: () => Promise<Content>): Promise<string>
}

export interface Order {
  readonly path: string
  readonly expected: Mark
  readonly state: State
  readonly sizeBytes: number
  content(): Promise<Content>
}

export interface InsideSide extends Side {
  /** Carries out each order whose path still is as it expects. */
  change(orders: readonly Order[]): Promise<Map<string, Outcome>>
  /** Leaves these directories out of scans: nothing in them was worth it. */
  leaveOut(directories: readonly string[]): void
}
