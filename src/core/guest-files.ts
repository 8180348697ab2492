/**
 * Files inside a sandbox, as a guest offers them. A relative path begins at the default directory, and `~` is the user's
 * home. `not_found`, `already_exists`, `permission_denied` and `invalid_argument` are said of the path;
 * `resource_exhausted` with reason `disk.full` where there is no room.
 */
import type { Readable } from 'node:stream'
import type { GuestCall } from './call.ts'

export interface GuestFiles {
  stat(path: string, o: FileCall): Promise<FileEntry>
  /** What is in a directory, down to `depth` levels; 1 is the directory itself. */
  list(path: string, depth: number, o: FileCall): Promise<readonly FileEntry[]>
  read(path: string, o: FileCall): Promise<FileContent>
  /** Replaces the file, and makes the directories above it. Answers its absolute path. */
  write(path: string, content: Readable, o: FileCall & WriteOptions): Promise<string>
  makeDir(path: string, o: FileCall): Promise<FileEntry>
  move(from: string, to: string, o: FileCall): Promise<FileEntry>
  /** A directory goes with all that is in it. One that is not there is success. */
  remove(path: string, o: FileCall): Promise<void>
  /** Changes in a directory, from the moment it resolves. `data_loss` when they come faster than they are read. */
  watch(path: string, o: FileCall & WatchOptions): Promise<AsyncIterable<FileChange>>
}

export interface GuestArchive {
  /** Unpacks a tar stream below a directory. `resource_exhausted` with reason `guest.too_large` past the guest's limits. */
  unpack(
    path: string,
    archive: Readable,
    o: ArchiveCall & { readonly isGzip?: boolean | undefined },
  ): Promise<void>
  /** A tar stream of a directory's contents, or of one file. A stream that fails later is destroyed. */
  pack(path: string, o: ArchiveCall): Promise<Readable>
}

export interface ArchiveCall extends GuestCall {
  /** The default user when left out. */
  readonly user?: string | undefined
}

export interface FileCall extends ArchiveCall {
  /** Where the sandbox has sudo, makes as root what the user may not do; what it makes is the user's. */
  readonly withSudo?: boolean | undefined
}

export interface WriteOptions {
  /** Kept with the file, in place of what was kept before. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
}

export interface WatchOptions {
  readonly isRecursive?: boolean | undefined
  /** Tells with each change what is there now. */
  readonly withEntries?: boolean | undefined
}

export interface FileContent {
  /** Left out where it is not known before the content is read. */
  readonly sizeBytes?: number | undefined
  readonly modifiedAt?: Date | undefined
  readonly content: Readable
}

export interface FileEntry {
  readonly name: string
  readonly path: string
  /** Of what a link leads to. Left out for devices, sockets, and links that lead nowhere. */
  readonly type?: 'file' | 'directory' | undefined
  readonly sizeBytes: number
  readonly mode: number
  /** As `ls -l` writes it. */
  readonly permissions: string
  readonly owner: string
  readonly group: string
  /** RFC 3339. */
  readonly modifiedAt: string
  readonly symlinkTarget?: string | undefined
  readonly metadata?: Readonly<Record<string, string>> | undefined
}

export interface FileChange {
  /** Relative to the watched directory. */
  readonly name: string
  readonly kind: 'create' | 'write' | 'remove' | 'rename' | 'chmod'
  readonly entry?: FileEntry | undefined
}
