/** Paths that a project's files name, and which of its directories they mean. */
import { directoryOf, type FileTree, nameOf, within } from '../tree.ts'
import { withParents } from './shared-versions.ts'

/** A project of more parts than this is described by its first ones. */
export const MOST_PARTS = 500
/** More findings than this of one language are of no use to anybody. */
export const MOST_FINDINGS = 50

/** SECURITY: a path is taken from a directory only as long as it stays in the project; anything else is undefined. */
export function inside(directory: string, path: string): string | undefined {
  const forward = path.replaceAll('\\', '/')
  if (forward.startsWith('/') || forward.startsWith('~') || /^[A-Za-z]:/.test(forward)) return undefined
  if (forward.includes('\0')) return undefined
  const steps = directory === '' ? [] : directory.split('/')
  for (const step of forward.split('/')) {
    if (step === '' || step === '.') continue
    if (step !== '..') steps.push(step)
    else if (steps.pop() === undefined) return undefined
  }
  return steps.join('/')
}

/** Whether a directory is another one or lies below it. */
export function isWithin(directory: string, above: string): boolean {
  return above === '' || directory === above || directory.startsWith(`${above}/`)
}

/** The way from one directory to a path, both relative to the project: `.` for itself. */
export function relativeTo(directory: string, path: string): string {
  if (path === directory) return '.'
  if (directory === '') return path
  if (path.startsWith(`${directory}/`)) return path.slice(directory.length + 1)
  return `${'../'.repeat(directory.split('/').length)}${path}`
}

/** The first of the files that a directory, or one above it, has. */
export function nearestAbove(
  tree: FileTree,
  directory: string,
  names: readonly string[],
): string | undefined {
  for (const at of withParents(directory))
    for (const name of names) {
      const path = within(at, name)
      if (tree.has(path)) return path
    }
  return undefined
}

/** Directories that a pattern means and that hold a file of the name, in order. `*`, `?` and `**` are understood. */
export function directoriesMatching(
  tree: FileTree,
  directory: string,
  pattern: string,
  manifest: string,
): readonly string[] {
  const wanted = inside(directory, pattern)
  if (wanted === undefined) return []
  const steps = wanted === '' ? [] : wanted.split('/')
  if (!/[*?]/.test(wanted)) return tree.has(within(wanted, manifest)) ? [wanted] : []
  const found = tree.named(manifest).map(directoryOf)
  return found.filter((one) => stepsMatch(one === '' ? [] : one.split('/'), steps)).toSorted()
}

function stepsMatch(steps: readonly string[], pattern: readonly string[]): boolean {
  return walk(steps.length, pattern.length, (at, of) => {
    if (pattern[of] === '**') return 'any'
    return nameMatches(steps[at] ?? '', pattern[of] ?? '') ? 'one' : 'none'
  })
}

export function nameMatches(name: string, pattern: string): boolean {
  return walk(name.length, pattern.length, (at, of) => {
    if (pattern[of] === '*') return 'any'
    return pattern[of] === '?' || pattern[of] === name[at] ? 'one' : 'none'
  })
}

/** Matching with stars: on a mismatch the latest star takes one more, and no earlier one is tried again, so that no pattern takes long. */
function walk(
  length: number,
  patternLength: number,
  test: (at: number, of: number) => 'any' | 'one' | 'none',
) {
  let at = 0
  let of = 0
  let star = -1
  let retry = 0
  while (at < length) {
    const verdict = of < patternLength ? test(at, of) : 'none'
    if (verdict === 'any') {
      star = of++
      retry = at
    } else if (verdict === 'one') {
      at++
      of++
    } else if (star >= 0) {
      of = star + 1
      at = ++retry
    } else return false
  }
  while (of < patternLength && test(length, of) === 'any') of++
  return of === patternLength
}

/** Files below a directory whose name ends in one of the suffixes, at most so many. */
export function filesBelow(
  tree: FileTree,
  directory: string,
  suffixes: readonly string[],
  most: number,
): readonly string[] {
  const found: string[] = []
  for (const path of tree.files) {
    if (found.length >= most) break
    if (isWithin(directoryOf(path), directory) && suffixes.some((suffix) => nameOf(path).endsWith(suffix)))
      found.push(path)
  }
  return found
}
