/** Names and links that come out of a sandbox: which of them may be written into a project on this machine. */
import { lstat, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { foldedName } from './folded-name.ts'
import { safePath, staysInside } from './untar.ts'

const LONGEST_PART_BYTES = 255

/** Files of ours that pass by neither way: copies of conflicts, and what is written before it gets its name. */
export const CONFLICT_MARK = 'agentpod-conflict-'
export const PARTIAL_MARK = '.agentpod-partial-'

/** Why a name from inside is not written here; undefined where it may be. */
export function badName(path: string): string | undefined {
  if (path === '.' || safePath(path) !== path) return 'its name leads outside'
  const parts = path.split('/')
  if (parts.some((part) => Buffer.byteLength(part) > LONGEST_PART_BYTES)) return 'its name is too long'
  // SECURITY: what git runs by itself, such as hooks and filters, is set below .git (GT-01).
  if (parts.some(isGitName)) return 'git’s own files are not synced'
  if (isOurs(path)) return 'names like this one are AgentPod’s own'
  return undefined
}

/** `.git` as any file system may spell it: in other cases, with dropped characters, shortened, or with a tail. */
function isGitName(part: string): boolean {
  return /^(?:\.git|git~[0-9]+)[ .]*(?:[:\\].*)?$/s.test(foldedName(part))
}

const COPY = new RegExp(`(?:^|\\.)${CONFLICT_MARK}[0-9]+$`)

export function isOurs(path: string): boolean {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return name.startsWith(PARTIAL_MARK) || COPY.test(name)
}

/**
 * SECURITY: what git ignores stays on this machine, so a sandbox that could change the rules could have the ignored files sent to it.
 */
export function decidesWhatIsSent(path: string): boolean {
  return path.slice(path.lastIndexOf('/') + 1).toLowerCase() === '.gitignore'
}

/** Why a link from inside is not made here; undefined where it may be. */
export async function badLink(root: string, path: string, target: string): Promise<string | undefined> {
  const outside = 'a link that leads outside'
  if (!staysInside(path, target)) return outside
  const led = join(dirname(path), target)
  if (led.split('/').some(isGitName)) return 'a link into git’s own files'
  // SECURITY: the target may pass through a link of this machine's that leads elsewhere.
  return (await isBelow(root, join(root, led))) ? undefined : outside
}

/** Whether a path, or the nearest directory above it that is there, lies below the root when all links are followed. */
async function isBelow(root: string, full: string): Promise<boolean> {
  const top = await realpath(root)
  for (let at = full; at.length >= root.length; at = dirname(at)) {
    const real = await realpath(at).catch(() => undefined)
    if (real !== undefined) return real === top || real.startsWith(`${top}/`)
    // A link that is there and leads nowhere may lead anywhere later.
    if (await lstat(at).catch(() => undefined)) return false
  }
  return false
}
