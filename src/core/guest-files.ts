/**
 * Files inside a sandbox. A relative path starts at the default directory, and `~` is the home of the user.
 * `not_found`, `already_exists`, `permission_denied` and `invalid_argument` refer to the path.
 * `resource_exhausted` with reason `disk.full`: there is no space.
 */
import type { Readable } from 'node:stream'
import type { GuestCall } from './call.ts'

export interface GuestFiles {
  stat(path: string, o: FileCall): Promise<FileEntry>
  /** The entries of a directory, down to `depth` levels; 1 is the directory itself. */
  list(path: string, depth: number, o: FileCall): Promise<readonly FileEntry[]>
  read(path: string, o: FileCall): Promise<FileContent>
  /** Replaces the file, and makes the directories above it. Returns its absolute path. */
  write(path: string, content: Readable, o: FileCall & WriteOptions): Promise<string>
  makeDir(path: string, o: FileCall): Promise<FileEntry>
  move(from: string, to: string, o: FileCall): Promise<FileEntry>
  /** Removes a directory with its contents. Succeeds if the path does not exist. */
  remove(path: string, o: FileCall): Promise<void>
  /**
   * Changes in a directory, from the moment it resolves. `data_loss` if they come faster than they are read.
   */
  watch(path: string, o: FileCall & WatchOptions): Promise<AsyncIterable<FileChange>>
}

export interface GuestArchive {
  /**
   * Unpacks a tar stream into a directory. `resource_exhausted` with reason `guest.too_large` above the
   * limits of the guest.
   */
  unpack(
    path: string,
    archive: Readable,
    o: ArchiveCall & { readonly isGzip?: boolean | undefined },
  ): Promise<void>
  /** A tar stream of the contents of a directory, or of one file. A stream that fails later is destroyed. */
  pack(path: string, o: ArchiveCall): Promise<Readable>
}

export interface ArchiveCall extends GuestCall {
  /** The default user if left out. */
  readonly user?: string | undefined
}

export interface FileCall extends ArchiveCall {
  /** If the sandbox has sudo, acts as root where the user may not. New files belong to the user. */
  readonly withSudo?: boolean | undefined
}

export interface WriteOptions {
  /** Stored with the file; replaces earlier metadata. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
}

export interface WatchOptions {
  readonly isRecursive?: boolean | undefined
  /** Includes the current entry with each change. */
  readonly withEntries?: boolean | undefined
}

export interface FileContent {
  /** Undefined if unknown before the content is read. */
  readonly sizeBytes?: number | undefined
  readonly modifiedAt?: Date | undefined
  readonly content: Readable
}

export interface FileEntry {
  readonly name: string
  readonly path: string
  /** The type of the target of a link. Undefined for devices, sockets and broken links. */
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
