/** The operations that two-way sync needs from each of its two sides. */
import type { PathState } from './decide-path.ts'

/** Metadata of a path. Equal stamps mean an unchanged file; its content has to be read to be known. */
export type PathStat =
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

export const ABSENT_STAT: PathStat = { kind: 'absent' }

/** Paths that may have changed, or `all` if some changes were missed. */
export type ChangeNotice = readonly string[] | 'all'

/** The result of one change. `changed`: the path was changed by someone else first, and nothing was done. */
export type ChangeOutcome =
  /** Without a stamp, the file has to be read to know its state. */
  | { readonly status: 'done'; readonly stamp: string | undefined; readonly state: PathState }
  | { readonly status: 'changed' }
  /** Nothing was done. `isInTheWay`: a file or a link is where a directory must be. */
  | { readonly status: 'failed'; readonly why: string; readonly isInTheWay?: boolean | undefined }

export const ALREADY_CHANGED: ChangeOutcome = { status: 'changed' }

export type ContentStream = AsyncIterable<Buffer>

export interface Side {
  /**
   * Every path. A path that cannot be read is missing from the result, which does not mean that it is absent.
   */
  scan(): Promise<Map<string, PathStat>>
  /** These paths as they are now. A path that cannot be read is missing from the result. */
  look(paths: readonly string[]): Promise<Map<string, PathStat>>
  /** SHA-256 of files. A file that cannot be read is missing from the result. */
  hash(paths: readonly string[]): Promise<Map<string, string>>
  /** The bytes of a file; a link is never followed. */
  read(path: string): Promise<ContentStream>
  /** Reports changes until disposed. If `isWatching` is false after a scan, only scans find changes. */
  watch(tell: (news: ChangeNotice) => void): Disposable
  readonly isWatching: boolean
}

export interface HostSide extends Side {
  /** The paths that are not part of the project, by the rules of this machine's git. */
  ignored(paths: readonly string[]): Promise<Set<string>>
  /** Gives a path this state, if it still is as `expected`. */
  put(
    path: string,
    expected: PathStat,
    state: PathState,
    content: () => Promise<ContentStream>,
  ): Promise<ChangeOutcome>
  /** Writes a new file next to a path, never over an existing one; returns its name. */
  writeConflictCopy(path: string, content: () => Promise<ContentStream>): Promise<string>
}

export interface ChangeOrder {
  readonly path: string
  readonly expected: PathStat
  readonly state: PathState
  readonly sizeBytes: number
  content(): Promise<ContentStream>
}

export interface SandboxSide extends Side {
  /** Carries out each order whose path still is as expected. */
  change(orders: readonly ChangeOrder[]): Promise<Map<string, ChangeOutcome>>
  /** Skips these directories in scans, because everything in them is ignored. */
  excludeFromScans(directories: readonly string[]): void
}
