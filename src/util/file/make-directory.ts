/**
 * Creates a directory and its missing parents. Node's own `recursive` never returns if a parent exists but
 * accepts no entries, as below /proc.
 */
import { mkdirSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

export function makeDirectory(path: string, mode: number): void {
  if (isDirectory(path)) return
  const parent = dirname(path)
  if (parent !== path) makeDirectory(parent, mode)
  try {
    mkdirSync(path, { mode })
  } catch (error) {
    // Another process may have created it meanwhile.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || !isDirectory(path)) throw error
  }
}

function isDirectory(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
}
