/**
 * The path of a unix socket must fit in 108 bytes with its terminator. A longer one is used through an open
 * descriptor of its directory, so that a state directory may have a path of any length.
 */
import { openSync } from 'node:fs'
import { basename, dirname } from 'node:path'

const LONGEST = 107
const directories = new Map<string, number>()

export function socketPath(path: string): string {
  if (Buffer.byteLength(path) <= LONGEST) return path
  const directory = dirname(path)
  let descriptor = directories.get(directory)
  if (descriptor === undefined) {
    descriptor = openSync(directory, 'r')
    directories.set(directory, descriptor)
  }
  return `/proc/self/fd/${descriptor}/${basename(path)}`
}
