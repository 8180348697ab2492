/** CMake's files: what they reach, what they look for, and what they are told by presets. */
import { type FileTree, within } from '../tree.ts'
import { type BuiltProgram, meantProgram } from './built-program.ts'
import type { Named } from './debian.ts'
import { inside, MOST_PARTS, relativeTo } from './place.ts'
import { at, isTable, listAt, malformed, readJson, short, textAt } from './reading.ts'
import { evidenceAt, type Line, linesIn, seek } from './seek.ts'

export interface CmakeProject {
  /** Directories of everything that is reached, the top first. */
  readonly directories: readonly string[]
  readonly libraries: readonly Named[]
  readonly minimum: string | undefined
  readonly tests: { readonly file: string; readonly line: number } | undefined
  /** Where its program lies below the directory that it is built in, where there is one that is meant. */
  readonly program: BuiltProgram | undefined
  readonly notes: readonly string[]
}

const FILE = 'CMakeLists.txt'

/** A directory's file, and those of the directories that it adds. Each is read once, whoever adds it. */
export function cmakeProject(tree: FileTree, directory: string): CmakeProject {
  const directories: string[] = []
  const libraries: Named[] = []
  const programs: BuiltProgram[] = []
  const notes = new Set<string>()
  let tests: CmakeProject['tests']
  const waiting = [directory]
  const seen = new Set<string>()
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (seen.has(next) || seen.size >= MOST_PARTS) continue
    seen.add(next)
    const file = within(next, FILE)
    const lines = codeOf(linesIn(tree, file))
    if (!tree.has(file)) continue
    directories.push(next)
    libraries.push(...librariesIn(file, lines))
    programs.push(...programsIn(file, relativeTo(directory, next), lines))
    const test = seek(
      lines,
      /^[ \t]*(?:enable_testing|add_test|gtest_discover_tests|catch_discover_tests|doctest_discover_tests)[ \t]*\(|\binclude\([ \t]*CTest\b/i,
    )
    if (test && !tests) tests = { file, line: test.line }
    for (const note of fetchNotes(file, lines)) notes.add(note)
    waiting.push(...subdirectories(next, lines))
  }
  const minimum = seek(
    codeOf(linesIn(tree, within(directory, FILE))),
    /^[ \t]*cmake_minimum_required[ \t]*\([ \t]*VERSION[ \t]+(\d{1,3}(?:\.\d{1,3}){0,2})/i,
  )
  const top = codeOf(linesIn(tree, within(directory, FILE)))
  const name = seek(top, /^[ \t]*project[ \t]*\([ \t]*"?([\w.+-]{1,100})/i)?.match[1]
  return {
    directories,
    libraries,
    minimum: minimum?.match[1],
    tests,
    program: meantProgram(programs, name),
    notes: [...notes],
  }
}

function programsIn(file: string, directory: string, lines: readonly Line[]): readonly BuiltProgram[] {
  return lines.flatMap(({ text, number }) => {
    const name = /^[ \t]*(?:qt_)?add_executable[ \t]*\([ \t]*"?([\w.+${}-]{1,100})/i.exec(text)?.[1]
    if (name === undefined || /\b(?:IMPORTED|ALIAS)\b/.test(text)) return []
    return [{ name, directory, evidence: evidenceAt(file, number, text) }]
  })
}

/** Comments are left out; the lines stay. */
function codeOf(lines: readonly Line[]): readonly Line[] {
  return lines.map(({ text, number }) => ({ text: text.split('#', 1)[0] ?? '', number }))
}

/** Paths that are put together from variables cannot be told. */
function subdirectories(directory: string, lines: readonly Line[]): readonly string[] {
  return lines.flatMap(({ text }) => {
    const path = /^[ \t]*add_subdirectory[ \t]*\([ \t]*"?([^")\s]{1,300})/i.exec(text)?.[1]
    const plain = path?.replace(/^\$\{(?:CMAKE_CURRENT_SOURCE_DIR|CMAKE_CURRENT_LIST_DIR)\}\//, '')
    if (plain === undefined || plain.includes('$')) return []
    const found = inside(directory, plain)
    return found === undefined ? [] : [found]
  })
}

function librariesIn(file: string, lines: readonly Line[]): readonly Named[] {
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

/** The first word is a prefix of variables, and versions are left out. */
function moduleNames(words: string): readonly string[] {
  return words
    .split(/[ \t]+/)
    .slice(1)
    .flatMap((word) => {
      const name = /^"?([\w.+-]+)/.exec(word)?.[1]
      return name === undefined || MODULE_WORDS.has(name) || /^\d/.test(name) ? [] : [name]
    })
}

function fetchNotes(file: string, lines: readonly Line[]): readonly string[] {
  const found = seek(
    lines,
    /\b(?:FetchContent_Declare|ExternalProject_Add|CPMAddPackage|hunter_add_package)\b/i,
  )
  return found
    ? [`${file} fetches sources while it builds (line ${found.line}): their hosts must be allowed`]
    : []
}

export interface Preset {
  readonly name: string
  /** Where it builds, from the directory of the project. */
  readonly binary: string
  readonly file: string
}

const PRESET_NAMES = ['default', 'dev', 'debug']

/** The preset to use: the only one that is not hidden, or one of a usual name. Undefined where its directory cannot be told. */
export function presetOf(tree: FileTree, directory: string, notes: string[]): Preset | undefined {
  const file = within(directory, 'CMakePresets.json')
  const read = readJson(tree, file)
  if (!read) return undefined
  if (read.problem) notes.push(malformed(file, read.problem))
  const all = listAt(read.data, 'configurePresets').filter(isTable).slice(0, MOST_PARTS)
  const open = all.filter(
    (one) => at(one, 'hidden') !== true && /^[\w.+-]{1,100}$/.test(textAt(one, 'name') ?? ''),
  )
  const chosen =
    open.length === 1
      ? open[0]
      : PRESET_NAMES.flatMap((name) => open.filter((one) => at(one, 'name') === name))[0]
  const name = textAt(chosen, 'name')
  if (name === undefined) {
    if (open.length > 0)
      notes.push(
        `${file} has several presets, none of which is the one to use: ${short(open.map((one) => textAt(one, 'name')).join(', '))}`,
      )
    return undefined
  }
  const written = inherited(all, name)
  const plain = written?.replaceAll(/\$\{sourceDir\}/g, '.').replaceAll(/\$\{presetName\}/g, () => name)
  const path = plain === undefined || plain.includes('$') ? undefined : inside(directory, plain)
  return path === undefined || path === directory
    ? undefined
    : { name, binary: relativeTo(directory, path), file }
}

/** A preset takes from others what it does not say itself; one that takes from itself in the end has none. */
function inherited(all: readonly unknown[], name: string): string | undefined {
  const seen = new Set<string>()
  const waiting = [name]
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (seen.has(next)) continue
    seen.add(next)
    const preset = all.find((one) => textAt(one, 'name') === next)
    const found = textAt(preset, 'binaryDir')
    if (found !== undefined) return found
    const above = at(preset, 'inherits')
    waiting.push(...(Array.isArray(above) ? above : [above]).filter((one) => typeof one === 'string'))
  }
  return undefined
}
