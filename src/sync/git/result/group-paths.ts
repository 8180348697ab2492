/**
 * Git compares every file of its index with every path that it is given. A long list of paths is therefore
 * replaced by the directories that they are in.
 */

/** How many paths git gets in one call. Each takes as long as looking at some hundred files. */
export const MOST_PATHS = 24

/**
 * Returns at most `most` paths that contain all of these, the deepest ones replaced by their directories
 * first. Empty if only the top contains them.
 */
export function groupPaths(paths: readonly string[], most = MOST_PATHS): readonly string[] {
  let grouped = new Set(paths)
  while (grouped.size > most) {
    const deepest = Math.max(...[...grouped].map(depthOf))
    if (deepest === 0) return []
    grouped = new Set([...grouped].map((path) => (depthOf(path) === deepest ? parentOf(path) : path)))
  }
  return [...grouped].filter((path) => !hasAncestorIn(path, grouped))
}

function depthOf(path: string): number {
  return path.split('/').length - 1
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf('/'))
}

function hasAncestorIn(path: string, paths: ReadonlySet<string>): boolean {
  for (let at = path.lastIndexOf('/'); at > 0; at = path.lastIndexOf('/', at - 1))
    if (paths.has(path.slice(0, at))) return true
  return false
}
