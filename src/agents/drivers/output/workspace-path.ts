import { posix } from 'node:path'
import { clip, LONGEST_PATH } from './clip.ts'

/**
 * A path for display: relative if it is in the workspace. Line breaks are replaced, because they would look
 * like a second path.
 */
export function workspacePath(path: string, workspace: string): string {
  const whole = posix.normalize(path.startsWith('/') ? path : posix.join(workspace, path))
  const shown =
    whole === workspace ? '.' : whole.startsWith(`${workspace}/`) ? whole.slice(workspace.length + 1) : whole
  return clip(shown.replace(/[\r\n]/g, '\uFFFD'), LONGEST_PATH)
}
