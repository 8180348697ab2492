/** Resolves paths and patterns from a project's files. */
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import { directoryAndParents } from './version-files.ts'

/** The limit of parts of a project; later ones are ignored. */
export const MOST_PARTS = 500
/** The limit of findings for one language. */
export const MOST_FINDINGS = 50

/** SECURITY: resolves a path relative to a directory; undefined if it would leave the project. */
export function pathInProject(directory: string, path: string): string | undefined {
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

/** Whether a directory is the other one or below it. */
export function isWithin(directory: string, above: string): boolean {
  return above === '' || directory === above || directory.startsWith(`${above}/`)
}

/** The relative path from a directory to a path, both relative to the project: `.` for itself. */
export function relativeTo(directory: string, path: string): string {
  if (path === directory) return '.'
  if (directory === '') return path
  if (path.startsWith(`${directory}/`)) return path.slice(directory.length + 1)
  return `${'../'.repeat(directory.split('/').length)}${path}`
}

/** The first of these files in the directory or one above it. */
export function nearestAbove(
  tree: FileTree,
  directory: string,
  names: readonly string[],
): string | undefined {
  for (const at of directoryAndParents(directory))
    for (const name of names) {
      const path = joinPath(at, name)
      if (tree.has(path)) return path
    }
  return undefined
}

/** Directories that match a pattern and contain a file of this name, sorted. Supports `*`, `?` and `**`. */
export function directoriesMatching(
  tree: FileTree,
  directory: string,
  pattern: string,
  manifest: string,
): readonly string[] {
  const wanted = pathInProject(directory, pattern)
  if (wanted === undefined) return []
  const steps = wanted === '' ? [] : wanted.split('/')
  if (!/[*?]/.test(wanted)) return tree.has(joinPath(wanted, manifest)) ? [wanted] : []
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

/**
 * Wildcard matching: on a mismatch only the latest star takes one more character, so that no pattern takes
 * long.
 */
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

/** Files below a directory with one of the suffixes, up to a limit. */
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
