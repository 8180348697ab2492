/** Reads CMake files: the directories they add, the libraries they look for, and presets. */
import { isObject, listAt, valueAt } from '../../../util/untrusted-json.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import type { NamedLibrary } from '../project-files/debian-packages.ts'
import { evidenceAt, type FileLine, findLine, linesIn } from '../project-files/find-lines.ts'
import { malformedNote, readJsonFile, shortQuote, textAt } from '../project-files/parsed-file.ts'
import { MOST_PARTS, pathInProject, relativeTo } from '../project-files/paths.ts'
import { type BuiltProgram, mainProgram } from './built-program.ts'

export interface CmakeProject {
  /** All directories that the build adds, top first. */
  readonly directories: readonly string[]
  readonly libraries: readonly NamedLibrary[]
  readonly minimum: string | undefined
  readonly tests: { readonly file: string; readonly line: number } | undefined
  /** The program that it builds, if there is an obvious one. */
  readonly program: BuiltProgram | undefined
  readonly notes: readonly string[]
}

const FILE = 'CMakeLists.txt'

/** The file of a directory, and those of the directories that it adds. Each is read once. */
export function cmakeProject(tree: FileTree, directory: string): CmakeProject {
  const directories: string[] = []
  const libraries: NamedLibrary[] = []
  const programs: BuiltProgram[] = []
  const notes = new Set<string>()
  let tests: CmakeProject['tests']
  const waiting = [directory]
  const seen = new Set<string>()
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (seen.has(next) || seen.size >= MOST_PARTS) continue
    seen.add(next)
    const file = joinPath(next, FILE)
    const lines = codeOf(linesIn(tree, file))
    if (!tree.has(file)) continue
    directories.push(next)
    libraries.push(...librariesIn(file, lines))
    programs.push(...programsIn(file, relativeTo(directory, next), lines))
    const test = findLine(
      lines,
      /^[ \t]*(?:enable_testing|add_test|gtest_discover_tests|catch_discover_tests|doctest_discover_tests)[ \t]*\(|\binclude\([ \t]*CTest\b/i,
    )
    if (test && !tests) tests = { file, line: test.line }
    for (const note of fetchNotes(file, lines)) notes.add(note)
    waiting.push(...subdirectories(next, lines))
  }
  const minimum = findLine(
    codeOf(linesIn(tree, joinPath(directory, FILE))),
    /^[ \t]*cmake_minimum_required[ \t]*\([ \t]*VERSION[ \t]+(\d{1,3}(?:\.\d{1,3}){0,2})/i,
  )
  const top = codeOf(linesIn(tree, joinPath(directory, FILE)))
  const name = findLine(top, /^[ \t]*project[ \t]*\([ \t]*"?([\w.+-]{1,100})/i)?.match[1]
  return {
    directories,
    libraries,
    minimum: minimum?.match[1],
    tests,
    program: mainProgram(programs, name),
    notes: [...notes],
  }
}

function programsIn(file: string, directory: string, lines: readonly FileLine[]): readonly BuiltProgram[] {
  return lines.flatMap(({ text, number }) => {
    const name = /^[ \t]*(?:qt_)?add_executable[ \t]*\([ \t]*"?([\w.+${}-]{1,100})/i.exec(text)?.[1]
    if (name === undefined || /\b(?:IMPORTED|ALIAS)\b/.test(text)) return []
    return [{ name, directory, evidence: evidenceAt(file, number, text) }]
  })
}

/** Removes comments and keeps the line numbers. */
function codeOf(lines: readonly FileLine[]): readonly FileLine[] {
  return lines.map(({ text, number }) => ({ text: text.split('#', 1)[0] ?? '', number }))
}

/** Paths with variables are not resolved. */
function subdirectories(directory: string, lines: readonly FileLine[]): readonly string[] {
  return lines.flatMap(({ text }) => {
    const path = /^[ \t]*add_subdirectory[ \t]*\([ \t]*"?([^")\s]{1,300})/i.exec(text)?.[1]
    const plain = path?.replace(/^\$\{(?:CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR)\}\//, '')
    if (plain === undefined || plain.includes('$')) return []
    const found = pathInProject(directory, plain)
    return found === undefined ? [] : [found]
  })
}

function librariesIn(file: string, lines: readonly FileLine[]): readonly NamedLibrary[] {
  return lines.flatMap(({ text, number }) => {
    const package_ = /\bfind_package[ \t]*\([ \t]*([\w.+-]{1,100})/i.exec(text)?.[1]
    const modules = /\bpkg_(?:check|search)_modules?[ \t]*\([ \t]*([^)]{1,500})/i.exec(text)?.[1]
    const names = [...(package_ ? [package_] : []), ...(modules ? moduleNames(modules) : [])]
    return names.map((name) => ({ name, evidence: evidenceAt(file, number, text) }))
  })
}

const MODULE_WORDS = new Set([
  'REQUIRED',
  'QUIET',
  'IMPORTED_TARGET',
  'GLOBAL',
  'NO_CMAKE_PATH',
  'NO_CMAKE_ENVIRONMENT_PATH',
])

/** The first word is a variable prefix; versions are skipped. */
function moduleNames(words: string): readonly string[] {
  return words
    .split(/[ \t]+/)
    .slice(1)
    .flatMap((word) => {
      const name = /^"?([\w.+-]+)/.exec(word)?.[1]
      return name === undefined || MODULE_WORDS.has(name) || /^\d/.test(name) ? [] : [name]
    })
}

function fetchNotes(file: string, lines: readonly FileLine[]): readonly string[] {
  const found = findLine(
    lines,
    /\b(?:FetchContent_Declare|ExternalProject_Add|CPMAddPackage|hunter_add_package)\b/i,
  )
  return found ? [`${file} fetches sources while it builds (line ${found.line}): allow their hosts`] : []
}

export interface CmakePreset {
  readonly name: string
  /** The build directory, relative to the project. */
  readonly binary: string
  readonly file: string
}

const PRESET_NAMES = ['default', 'dev', 'debug']

/**
 * The preset to use: the only visible one, or one with a usual name. Undefined if its directory is not known.
 */
export function cmakePreset(tree: FileTree, directory: string, notes: string[]): CmakePreset | undefined {
  const file = joinPath(directory, 'CMakePresets.json')
  const read = readJsonFile(tree, file)
  if (!read) return undefined
  if (read.problem) notes.push(malformedNote(file, read.problem))
  const all = listAt(read.data, 'configurePresets').filter(isObject).slice(0, MOST_PARTS)
  const open = all.filter(
    (one) => valueAt(one, 'hidden') !== true && /^[\w.+-]{1,100}$/.test(textAt(one, 'name') ?? ''),
  )
  const chosen =
    open.length === 1
      ? open[0]
      : PRESET_NAMES.flatMap((name) => open.filter((one) => valueAt(one, 'name') === name))[0]
  const name = textAt(chosen, 'name')
  if (name === undefined) {
    if (open.length > 0)
      notes.push(
        `${file} has several presets and none is the obvious one: ${shortQuote(open.map((one) => textAt(one, 'name')).join(', '))}`,
      )
    return undefined
  }
  const written = inherited(all, name)
  const plain = written?.replaceAll(/\$\{sourceDir\}/g, '.').replaceAll(/\$\{presetName\}/g, () => name)
  const path = plain === undefined || plain.includes('$') ? undefined : pathInProject(directory, plain)
  return path === undefined || path === directory
    ? undefined
    : { name, binary: relativeTo(directory, path), file }
}

/** A value that a preset inherits; undefined for presets that inherit from themselves. */
function inherited(all: readonly unknown[], name: string): string | undefined {
  const seen = new Set<string>()
  const waiting = [name]
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (seen.has(next)) continue
    seen.add(next)
    const preset = all.find((one) => textAt(one, 'name') === next)
    const found = textAt(preset, 'binaryDir')
    if (found !== undefined) return found
    const above = valueAt(preset, 'inherits')
    waiting.push(...(Array.isArray(above) ? above : [above]).filter((one) => typeof one === 'string'))
  }
  return undefined
}
