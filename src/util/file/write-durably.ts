import { closeSync, fsyncSync, openSync, renameSync, rmSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Writes a file that only its owner may read. It gets its name once it is complete and on disk, so a full
 * disk leaves no partial file.
 */
export function writeDurably(file: string, content: Buffer): void {
  const draft = `${file}.${process.pid}`
  const descriptor = openSync(draft, 'w', 0o600)
  try {
    writeSync(descriptor, content)
    fsyncSync(descriptor)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  } finally {
    closeSync(descriptor)
  }
  renameSync(draft, file)
  const directory = openSync(dirname(file), 'r')
  try {
    fsyncSync(directory)
  } finally {
    closeSync(directory)
  }
}
