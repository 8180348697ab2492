/**
 * Directories that git takes for a repository although they are not called `.git`: whoever runs git in one obeys its settings, some of which
 * name programs to run (GT-15). Git asks for a file HEAD, and for `objects` and `refs` beside it or a file `commondir` that says where these
 * are.
 */
import { lstatSync } from 'node:fs'
import { join } from 'node:path'
import { foldedName, foldedParts } from './folded-name.ts'

/** What a path comes to where the file system has short names and streams. */
function plainName(part: string): string {
  const name = foldedName(part).replace(/[:\\].*$/s, '')
  return /^common~[0-9]+$/.test(name) ? 'commondir' : name
}

/** Most paths have none of the names in them, and need no closer look. Letters beyond ASCII may fold to any of them. */
const WORTH_A_LOOK = /head|objects|refs|common|[^\x20-\x7e]/i

/** Those among the directories of these files and links, folded; the top is the empty text. */
export function bareRepositories(paths: Iterable<string>): Set<string> {
  const found = new Map<string, Set<string>>()
  for (const path of paths) {
    if (!WORTH_A_LOOK.test(path)) continue
    const parts = foldedParts(path).map(plainName)
    for (const [i, name] of parts.entries()) {
      // A directory called HEAD is no head.
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

/** Whether a path lies in one of these directories. */
export function isInRepository(path: string, repositories: ReadonlySet<string>): boolean {
  if (repositories.size === 0) return false
  const parts = foldedParts(path).map(plainName)
  return parts.some((_, i) => repositories.has(parts.slice(0, i).join('/')))
}

export function isHeadName(path: string): boolean {
  return plainName(path.slice(path.lastIndexOf('/') + 1)) === 'head'
}

/** Whether a file has the name of what makes a directory a repository. */
export function isRepositoryName(path: string): boolean {
  return isHeadName(path) || plainName(path.slice(path.lastIndexOf('/') + 1)) === 'commondir'
}

/** Why such a file is not written here. */
export const IN_REPOSITORY = 'it would be part of a git repository, whose settings run programs'

/** Whether git reads a file HEAD with this content as one. What could not be read may be anything. */
export function isHead(content: string | undefined): boolean {
  return content === undefined || /^(?:ref:|[0-9a-f]{40})/i.test(content)
}

/**
 * Whether a file or a link that comes out of a sandbox would make a directory below `root` a repository, or lies in one. The names that
 * decide it never come out, so that no order of several writes comes to one.
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
