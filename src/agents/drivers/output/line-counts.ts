/** Counts the lines that a change adds and removes. */

/**
 * Counts lines that one side has more often than the other, in linear time. Moved lines are not counted. This
 * is for the log; the branch has the exact diff.
 */
export function lineCounts(
  before: string,
  after: string,
): { readonly added: number; readonly removed: number } {
  const left = new Map<string, number>()
  for (const line of linesOf(before)) left.set(line, (left.get(line) ?? 0) + 1)
  let added = 0
  for (const line of linesOf(after)) {
    const count = left.get(line) ?? 0
    if (count === 0) added++
    else left.set(line, count - 1)
  }
  let removed = 0
  for (const count of left.values()) removed += count
  return { added, removed }
}

function linesOf(text: string): string[] {
  if (text === '') return []
  const lines = text.split('\n')
  if (lines.at(-1) === '') lines.pop()
  return lines
}

/** Counts of a unified diff, without the file headers. */
export function patchCounts(patch: string): { readonly added: number; readonly removed: number } {
  let added = 0
  let removed = 0
  for (const line of patch.split('\n')) {
    if (line.startsWith('+') && !line.startsWith('+++ ')) added++
    else if (line.startsWith('-') && !line.startsWith('--- ')) removed++
  }
  return { added, removed }
}
