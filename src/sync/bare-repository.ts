/**
 * Finds directories that git takes for a repository although they are not called `.git`. Git run in such a
 * directory reads its settings, some of which name programs to run (GT-15). Git looks for a file HEAD with
 * `objects` and `refs` beside it, or a file `commondir` that names their directory.
 */
import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { foldedName, foldedParts } from './folded-name.ts'

/** A path as a file system with short names and streams reads it. */
function plainName(part: string): string {
  const name = foldedName(part).replace(/[:\\].*$/s, '')
  return /^common~[0-9]+$/.test(name) ? 'commondir' : name
}

/**
 * Most paths contain none of the names and need no further check. Letters beyond ASCII may fold to any of
 * them.
 */
const WORTH_A_LOOK = /head|objects|refs|common|[^\x20-\x7e]/i

/** The repositories among the directories of these files and links, folded; the top is the empty string. */
export function bareRepositories(paths: Iterable<string>): Set<string> {
  const found = new Map<string, Set<string>>()
  for (const path of paths) {
    if (!WORTH_A_LOOK.test(path)) continue
    const parts = foldedParts(path).map(plainName)
    for (const [i, name] of parts.entries()) {
      // A directory called HEAD does not count.
      if (!isPart(name) || (name === 'head' && i < parts.length - 1)) continue
      const above = parts.slice(0, i).join('/')
      const names = found.get(above)
      if (names) names.add(name)
      else found.set(above, new Set([name]))
    }
  }
  return new Set([...found].filter(([, names]) => isComplete((name) => names.has(name))).map(([at]) => at))
}

function isPart(name: string): boolean {
  return name === 'head' || name === 'objects' || name === 'refs' || name === 'commondir'
}

function isComplete(has: (name: string) => boolean): boolean {
  return has('head') && (has('commondir') || (has('objects') && has('refs')))
}

/** Whether a path is in one of these directories. */
export function isInRepository(path: string, repositories: ReadonlySet<string>): boolean {
  if (repositories.size === 0) return false
  const parts = foldedParts(path).map(plainName)
  return parts.some((_, i) => repositories.has(parts.slice(0, i).join('/')))
}

export function isHeadName(path: string): boolean {
  return plainName(path.slice(path.lastIndexOf('/') + 1)) === 'head'
}

/** Whether a file has a name that can make its directory a repository. */
export function isRepositoryName(path: string): boolean {
  return isHeadName(path) || plainName(path.slice(path.lastIndexOf('/') + 1)) === 'commondir'
}

/** Why such a file is not written here. */
export const IN_REPOSITORY = 'it would be part of a git repository, whose settings run programs'

/** Whether git accepts this content of a file HEAD. Unread content counts as accepted. */
export function isHead(content: string | undefined): boolean {
  return content === undefined || /^(?:ref:|[0-9a-f]{40})/i.test(content)
}

/**
 * Whether a file or link from a sandbox would turn a directory below `root` into a repository, or is in one.
 * The decisive names are never written, so that no sequence of writes can create a repository.
 */
export function makesRepository(root: string, path: string): boolean {
  if (isRepositoryName(path)) return true
  const parts = path.split('/')
  return parts.some((part, i) => {
    const at = join(root, ...parts.slice(0, i))
    if (!isThere(join(at, 'HEAD'))) return false
    const name = plainName(part)
    return isPart(name) || isComplete((one) => isThere(join(at, one === 'head' ? 'HEAD' : one)))
  })
}

function isThere(path: string): boolean {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined
  } catch {
    return false
  }
}
