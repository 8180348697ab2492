/** Directories of a sandbox that are in memory, empty at every start and never kept. */
import { invalid } from '../error.ts'
import { parseMountPath, pathsOverlap } from './mount-path.ts'

export interface EphemeralDirectory {
  readonly path: string
  /** The most that it holds; as much as /tmp if left out. */
  readonly sizeMib?: number | undefined
}

export const MOST_EPHEMERAL = 16
export const LARGEST_EPHEMERAL_MIB = 1024 * 1024

/** A path for an ephemeral directory inside a sandbox. */
export function parseEphemeralPath(path: string): string {
  return parseMountPath(
    path,
    'an ephemeral directory',
    isNeverKept(path) ? 'leave it out: it is never kept' : undefined,
  )
}

/** Directories that every sandbox has in memory anyway. */
export function isNeverKept(path: string): boolean {
  return ['/tmp', '/run', '/dev/shm'].some((dir) => path === dir || path.startsWith(`${dir}/`))
}

/** Checks the directories of one sandbox, and that none is inside another one or inside a volume. */
export function checkEphemeral(
  directories: readonly EphemeralDirectory[],
  volumes: readonly { readonly name: string; readonly path: string }[] = [],
): void {
  if (directories.length > MOST_EPHEMERAL)
    throw invalid('ephemeral.count', `a sandbox has at most ${MOST_EPHEMERAL} ephemeral directories`)
  for (const [n, { path, sizeMib }] of directories.entries()) {
    parseEphemeralPath(path)
    if (sizeMib !== undefined && !isSize(sizeMib))
      throw invalid(
        'ephemeral.size',
        `the size of an ephemeral directory must be a whole number from 1 to ${LARGEST_EPHEMERAL_MIB} MiB`,
      )
    const other = directories.slice(0, n).find((one) => pathsOverlap(one.path, path))
    if (other)
      throw invalid(
        'ephemeral.nested',
        other.path === path
          ? `the ephemeral directory ${path} is named twice`
          : `the ephemeral directories ${other.path} and ${path} are one inside the other`,
        'name the outer one only',
      )
    const volume = volumes.find((one) => pathsOverlap(one.path, path))
    if (volume)
      throw invalid(
        'ephemeral.volume',
        `the ephemeral directory ${path} and the volume ${volume.name} at ${volume.path} overlap`,
        'give each a directory of its own',
      )
  }
}

function isSize(mib: number): boolean {
  return Number.isInteger(mib) && mib >= 1 && mib <= LARGEST_EPHEMERAL_MIB
}
