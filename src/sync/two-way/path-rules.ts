/** Which names and links from a sandbox may be written into a project on this machine. */
import { lstat, realpath } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { foldedName } from '../folded-name.ts'
import { safePath, staysInside } from '../untar.ts'

const LONGEST_PART_BYTES = 255

/**
 * Names of our own files, which are never synced: copies of conflicts, and files that are still being
 * written.
 */
export const CONFLICT_MARK = 'agentpod-conflict-'
export const PARTIAL_MARK = '.agentpod-partial-'

/** Why a name from a sandbox is not written here; undefined if it may be. */
export function nameRefusal(path: string): string | undefined {
  if (path === '.' || safePath(path) !== path) return 'its name points outside the project'
  const parts = path.split('/')
  if (parts.some((part) => Buffer.byteLength(part) > LONGEST_PART_BYTES)) return 'its name is too long'
  // SECURITY: .git holds hooks and filters, which git runs on its own (GT-01).
  if (parts.some(isGitName)) return 'git’s own files are not synced'
  if (isSyncFile(path)) return 'AgentPod reserves names like this'
  return undefined
}

/**
 * `.git` in any spelling that a file system may accept: other case, dropped characters, short name, with a
 * tail.
 */
function isGitName(part: string): boolean {
  return /^(?:\.git|git~[0-9]+)[ .]*(?:[:\\].*)?$/s.test(foldedName(part))
}

const COPY = new RegExp(`(?:^|\\.)${CONFLICT_MARK}[0-9]+$`)

export function isSyncFile(path: string): boolean {
  const name = path.slice(path.lastIndexOf('/') + 1)
  return name.startsWith(PARTIAL_MARK) || COPY.test(name)
}

/**
 * SECURITY: ignored files stay on this machine. A sandbox that could change the rules could have them sent to
 * it.
 */
export function isIgnoreFile(path: string): boolean {
  return path.slice(path.lastIndexOf('/') + 1).toLowerCase() === '.gitignore'
}

/** Why a link from a sandbox is not created here; undefined if it may be. */
export async function linkRefusal(root: string, path: string, target: string): Promise<string | undefined> {
  const outside = 'the link points outside the project'
  if (!staysInside(path, target)) return outside
  const led = join(dirname(path), target)
  if (led.split('/').some(isGitName)) return 'the link points into git’s own files'
  // SECURITY: the target may pass through a link on this machine that points elsewhere.
  return (await isBelow(root, join(root, led))) ? undefined : outside
}

/** Whether a path, or its nearest existing parent, is below the root after all links are followed. */
async function isBelow(root: string, full: string): Promise<boolean> {
  const top = await realpath(root)
  for (let at = full; at.length >= root.length; at = dirname(at)) {
    const real = await realpath(at).catch(() => undefined)
    if (real !== undefined) return real === top || real.startsWith(`${top}/`)
    // A dangling link could point anywhere later.
    if (await lstat(at).catch(() => undefined)) return false
  }
  return false
}
