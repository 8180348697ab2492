/**
 * Finds Gradle builds and their projects. Build files are programs: only common statements are understood,
 * and nothing is run.
 */
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import { evidenceAt, type FileLine, linesOf } from '../project-files/find-lines.ts'
import { ownFiles } from '../project-files/ignored-directories.ts'
import { readTextFile, shortQuote } from '../project-files/parsed-file.ts'
import { isWithin, MOST_PARTS, pathInProject } from '../project-files/paths.ts'

export const SETTINGS_FILES = ['settings.gradle.kts', 'settings.gradle']
export const BUILD_FILES = ['build.gradle.kts', 'build.gradle']

export interface GradleProject {
  /** As Gradle names it: `:libs:core`, and `:` for the root. */
  readonly name: string
  readonly directory: string
  readonly file: string | undefined
}

export interface GradleBuild {
  readonly directory: string
  readonly evidence: Evidence
  /** The root first. */
  readonly projects: readonly GradleProject[]
  /** Directories of builds that this one builds with. */
  readonly included: readonly string[]
  readonly notes: readonly string[]
}

export function gradleBuilds(tree: FileTree): readonly GradleBuild[] {
  const settings = ownFiles(SETTINGS_FILES.flatMap((name) => tree.named(name)))
  const builds = ownFiles(BUILD_FILES.flatMap((name) => tree.named(name)))
  const directories = [...settings, ...builds].map(directoryOf)
  const found = new Map<string, GradleBuild>()
  for (const directory of nearestFirst(settings.map(directoryOf)))
    found.set(directory, buildOf(tree, directory))
  const parts = new Set([...found.values()].flatMap((build) => partsOf(build)))
  for (const directory of parts) found.delete(directory)
  const roots = [...found.keys()]
  for (const directory of nearestFirst(directories)) {
    if (parts.has(directory) || [...found.keys(), ...roots].some((root) => isWithin(directory, root)))
      continue
    found.set(directory, buildOf(tree, directory))
  }
  return [...found.values()]
}

/** All directories of a build except its root. */
function partsOf({ directory, projects, included }: GradleBuild): readonly string[] {
  return [
    ...projects.map((project) => project.directory),
    ...included,
    joinPath(directory, 'buildSrc'),
  ].filter((part) => part !== directory)
}

function nearestFirst(directories: readonly string[]): readonly string[] {
  const depth = (directory: string): number => (directory === '' ? 0 : directory.split('/').length)
  return [...new Set(directories)].toSorted((a, b) => depth(a) - depth(b) || (a < b ? -1 : 1))
}

function buildOf(tree: FileTree, directory: string): GradleBuild {
  const file = [...SETTINGS_FILES, ...BUILD_FILES]
    .map((name) => joinPath(directory, name))
    .find((path) => tree.has(path))
  const isSettings = file !== undefined && SETTINGS_FILES.some((name) => file.endsWith(name))
  const text = isSettings ? withoutComments(readTextFile(tree, file) ?? '') : ''
  const notes: string[] = []
  const projects = [projectAt(tree, ':', directory), ...subprojects(tree, directory, text, notes)]
  const included = stringsOf(text, 'includeBuild').flatMap((path) => pathInProject(directory, path) ?? [])
  const line = linesOf(text).find(({ text: one }) => /\b(?:rootProject\.name|include)\b/.test(one))
  const evidence = evidenceAt(file ?? '', line?.number, line?.text ?? 'a build of Gradle')
  return { directory, evidence, projects, included, notes }
}

function subprojects(
  tree: FileTree,
  directory: string,
  text: string,
  notes: string[],
): readonly GradleProject[] {
  const moved = movedProjects(text)
  const names = stringsOf(text, 'include').map((name) => (name.startsWith(':') ? name : `:${name}`))
  return [...new Set(names)].slice(0, MOST_PARTS).flatMap((name) => {
    const path = pathInProject(directory, moved.get(name) ?? name.slice(1).replaceAll(':', '/'))
    if (path === undefined) notes.push(`Gradle's project ${shortQuote(name)} is outside the project`)
    return path === undefined ? [] : [projectAt(tree, name, path)]
  })
}

function projectAt(tree: FileTree, name: string, directory: string): GradleProject {
  const last = name.slice(name.lastIndexOf(':') + 1)
  const named = last === '' ? [] : [`${last}.gradle.kts`, `${last}.gradle`]
  const file = [...BUILD_FILES, ...named]
    .map((one) => joinPath(directory, one))
    .find((path) => tree.has(path))
  return { name, directory, file }
}

/** `project(':x').projectDir = file('y')` */
function movedProjects(text: string): ReadonlyMap<string, string> {
  const moved = new Map<string, string>()
  for (const { text: line } of linesOf(text)) {
    const match =
      /project\([ \t]*["']([^"']{1,200})["'][ \t]*\)\.projectDir[ \t]*=[^"']{0,100}["']([^"']{1,300})["']/.exec(
        line,
      )
    if (match?.[1] && match[2]) moved.set(match[1], match[2])
  }
  return moved
}

/** Every string that follows a word, across lines that end in commas or open brackets. */
function stringsOf(text: string, word: string): readonly string[] {
  const found: string[] = []
  let open = false
  for (const { text: line } of linesOf(text)) {
    const start = open ? 0 : startOf(line, word)
    if (start < 0) continue
    const rest = line.slice(start)
    for (const match of rest.matchAll(/["']([^"'$]{1,200})["']/g)) found.push(match[1] ?? '')
    const end = rest.trimEnd()
    const isOpened: boolean = open || end.includes('(')
    open = end.endsWith(',') || end.endsWith('(') || (isOpened && !end.includes(')') && end !== '')
  }
  return found.slice(0, 2 * MOST_PARTS)
}

function startOf(line: string, word: string): number {
  const match =
    new RegExp(`^[ \\t]*${word}[ \\t]*[("']`).exec(line) ?? new RegExp(`^[ \\t]*${word}[ \\t]*$`).exec(line)
  return match ? match[0].length - 1 : -1
}

/** Comments are blanked, so that lines keep their numbers. Strings with slashes in them are kept whole. */
export function withoutComments(text: string): string {
  const lines: readonly FileLine[] = linesOf(text)
  let isInside = false
  const kept = lines.map(({ text: line }) => {
    let out = ''
    let rest = line
    for (;;) {
      if (isInside) {
        const end = rest.indexOf('*/')
        if (end < 0) return out
        rest = rest.slice(end + 2)
        isInside = false
      }
      const start = rest.indexOf('/*')
      const slashes = /(?:^|[^:\\"'])\/\//.exec(rest)
      if (slashes && (start < 0 || slashes.index < start))
        return out + rest.slice(0, slashes.index + slashes[0].length - 2)
      if (start < 0) return out + rest
      out += rest.slice(0, start)
      rest = rest.slice(start + 2)
      isInside = true
    }
  })
  return kept.join('\n')
}
