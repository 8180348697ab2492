/** C and C++: CMake, Meson, the autotools and Make. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import type { Detector, Finding, FoundCommand, FoundTool, Verb } from '../finding.ts'
import { MAKEFILES, makefileIn, makeTargets } from '../instructions/task-runners.ts'
import { distinctPackages, type NamedLibrary, packagesOf } from '../project-files/debian-packages.ts'
import { evidenceAt, findLine, linesIn } from '../project-files/find-lines.ts'
import { isVendoredOrBuilt, ownFiles } from '../project-files/ignored-directories.ts'
import { manifestIn } from '../project-files/manifests.ts'
import { isWithin, MOST_FINDINGS, MOST_PARTS, relativeTo } from '../project-files/paths.ts'
import { type BuiltProgram, builtProgramPath, mainProgram } from './built-program.ts'
import { cmakePreset, cmakeProject } from './cmake.ts'
import { libraryPackages } from './system-packages.ts'

type Kind = 'cmake' | 'meson' | 'autotools' | 'make'

/** Preferred ones first. */
const KINDS: readonly (readonly [kind: Kind, files: readonly string[]])[] = [
  ['cmake', ['CMakeLists.txt']],
  ['meson', ['meson.build']],
  ['autotools', ['configure.ac', 'configure.in', 'configure']],
  ['make', MAKEFILES],
]

const SOURCES = /\.(?:c|cc|cpp|cxx|c\+\+|h|hh|hpp|hxx)$/

interface Seen {
  readonly kind: Kind
  readonly file: string
}

/** The result of one build system for a directory. */
interface Part {
  readonly commands: Partial<Record<Verb, FoundCommand>>
  readonly packages: string
  readonly libraries: readonly NamedLibrary[]
  readonly generated: readonly string[]
  readonly tools?: readonly FoundTool[]
  readonly notes: readonly string[]
  readonly inputs?: readonly string[]
}

export const detectC: Detector = (tree) => {
  const tops = topDirectories(tree)
  const reached = new Map(tops.map((top) => [top, new Set(cmakeProject(tree, top).directories)]))
  const own = tops.filter((top) => !tops.some((other) => isReached(reached, other, top)))
  return own.slice(0, MOST_FINDINGS).map((directory) => findingOf(tree, directory))
}

/** A directory may add a sibling; if both add each other, both stay. */
function isReached(reached: ReadonlyMap<string, ReadonlySet<string>>, other: string, top: string): boolean {
  return other !== top && reached.get(other)?.has(top) === true && reached.get(top)?.has(other) !== true
}

/** Directories with a build that are not part of another build. */
function topDirectories(tree: FileTree): readonly string[] {
  const files = ownFiles(KINDS.flatMap(([, names]) => names.flatMap((name) => tree.named(name))))
  const depth = (directory: string): number => (directory === '' ? 0 : directory.split('/').length)
  const directories = [...new Set(files.map(directoryOf))].toSorted(
    (a, b) => depth(a) - depth(b) || (a < b ? -1 : 1),
  )
  const tops: string[] = []
  for (const directory of directories) {
    if (tops.length >= MOST_PARTS) break
    if (tops.some((top) => isWithin(directory, top)) || seenIn(tree, directory).length === 0) continue
    tops.push(directory)
  }
  return tops
}

function seenIn(tree: FileTree, directory: string): readonly Seen[] {
  return KINDS.flatMap(([kind, names]) => {
    const file =
      kind === 'make'
        ? makefileIn(tree, directory)
        : names.map((name) => joinPath(directory, name)).find((path) => tree.has(path))
    return file !== undefined && counts(tree, directory, kind, file) ? [{ kind, file }] : []
  })
}

/**
 * Makefiles and `configure` scripts exist in every language: they count only if there is C and no other
 * language that could own them.
 */
function counts(tree: FileTree, directory: string, kind: Kind, file: string): boolean {
  if (kind === 'cmake') return true
  if (kind === 'meson') return findLine(linesIn(tree, file), /^[ \t]*project[ \t]*\(/) !== undefined
  if (kind === 'make' && manifestIn(tree, directory) !== undefined) return false
  const places = ['src', 'source', 'lib', 'include'].map((name) => joinPath(directory, name))
  return tree.files.some((path) => {
    if (!SOURCES.test(path)) return false
    const at = directoryOf(path)
    return at === directory || (places.some((place) => isWithin(at, place)) && !isVendoredOrBuilt(at))
  })
}

function findingOf(tree: FileTree, directory: string): Finding {
  const [first, ...others] = seenIn(tree, directory)
  const { kind, file } = first ?? { kind: 'make', file: joinPath(directory, 'Makefile') }
  const evidence = evidenceOf(tree, kind, file)
  const part = PARTS[kind](tree, directory, evidence)
  const notes = [...part.notes, ...managerNotes(tree, directory)]
  const beat = others.map((one) => ({
    name: one.kind,
    evidence: evidenceAt(one.file, undefined, nameOf(one.file)),
    why: `${kind} is asked first`,
  }))
  return {
    language: 'c',
    directory,
    evidence,
    versions: [],
    manager: { name: kind, evidence, beat },
    tools: part.tools ?? [],
    inputs: part.inputs ?? [],
    commands: part.commands,
    packages: distinctPackages([...packagesOf(part.packages, evidence), ...libraryPackages(part.libraries)]),
    generated: part.generated,
    presets: [],
    ...(notes.length > 0 && { notes }),
  }
}

function managerNotes(tree: FileTree, directory: string): readonly string[] {
  return [
    ['vcpkg.json', 'vcpkg'],
    ['conanfile.txt', 'Conan'],
    ['conanfile.py', 'Conan'],
  ].flatMap(([file = '', name]) =>
    tree.has(joinPath(directory, file))
      ? [`${joinPath(directory, file)} is for ${name}, which is not supported`]
      : [],
  )
}

function evidenceOf(tree: FileTree, kind: Kind, file: string): Evidence {
  const isProject = kind === 'cmake' || kind === 'meson'
  const found = isProject ? findLine(linesIn(tree, file), /^[ \t]*project[ \t]*\(/i) : undefined
  return evidenceAt(file, found?.line, found?.match.input ?? nameOf(file))
}

const PARTS: Readonly<Record<Kind, (tree: FileTree, directory: string, evidence: Evidence) => Part>> = {
  cmake(tree, directory, evidence) {
    const project = cmakeProject(tree, directory)
    const notes = [...project.notes]
    const preset = cmakePreset(tree, directory, notes)
    const binary = shellWord(preset?.binary ?? 'build')
    const configure = preset ? `cmake --preset ${preset.name}` : 'cmake -B build -G Ninja'
    const build = `${configure} && cmake --build ${binary}`
    const test = project.tests
    const version = project.minimum && { version: `>=${project.minimum}` }
    return {
      commands: {
        ...(test && {
          test: {
            run: `${build} && ctest --test-dir ${binary} --output-on-failure`,
            evidence: evidenceAt(test.file, test.line, 'tests for CTest'),
          },
        }),
        build: { run: build, evidence: preset ? evidenceAt(preset.file, undefined, preset.name) : evidence },
        ...(project.program && startOf(build, preset?.binary ?? 'build', project.program)),
      },
      packages: 'build-essential cmake ninja-build pkg-config',
      libraries: project.libraries,
      generated: [joinPath(directory, preset?.binary ?? 'build')],
      tools: [{ name: 'cmake', ...version, evidence }],
      notes,
    }
  },

  meson(tree, directory, evidence) {
    const files = tree
      .named('meson.build')
      .filter((path) => isWithin(directoryOf(path), directory) && !isVendoredOrBuilt(directoryOf(path)))
    const all = files
      .slice(0, MOST_PARTS)
      .flatMap((file) => linesIn(tree, file).map((line) => ({ ...line, file })))
    const test = all.find(({ text }) => /^[ \t]*(?:test|benchmark)[ \t]*\(/.test(text))
    const libraries = all.flatMap(({ text, number, file }) => {
      const name = /\bdependency[ \t]*\([ \t]*'([\w.+-]{1,100})'/.exec(text)?.[1]
      return name === undefined ? [] : [{ name, evidence: evidenceAt(file, number, text) }]
    })
    const build = 'meson setup build && meson compile -C build'
    const programs = all.flatMap(({ text, number, file }) => {
      const name = /\bexecutable[ \t]*\([ \t]*'([\w.+-]{1,100})'/.exec(text)?.[1]
      if (name === undefined) return []
      const from = relativeTo(directory, directoryOf(file))
      return [{ name, directory: from, evidence: evidenceAt(file, number, text) }]
    })
    const named = all.map(({ text }) => /^[ \t]*project[ \t]*\([ \t]*'([^']{1,100})'/.exec(text)?.[1])
    const program = mainProgram(programs, named.find(Boolean))
    const wraps = tree
      .ending('.wrap')
      .filter((path) => directoryOf(path) === joinPath(directory, 'subprojects'))
    return {
      commands: {
        ...(test && {
          test: {
            run: 'meson setup build && meson test -C build',
            evidence: evidenceAt(test.file, test.number, test.text),
          },
        }),
        build: { run: build, evidence },
        ...(program && startOf(build, 'build', program)),
      },
      packages: 'build-essential meson ninja-build pkg-config',
      libraries,
      generated: [joinPath(directory, 'build')],
      tools: [{ name: 'meson', evidence }],
      notes:
        wraps.length > 0 ? [`${wraps[0]} and similar files make Meson fetch sources: allow their hosts`] : [],
    }
  },

  autotools(tree, directory, evidence) {
    const source = ['configure.ac', 'configure.in']
      .map((name) => joinPath(directory, name))
      .find((path) => tree.has(path))
    const isMade = tree.has(joinPath(directory, 'configure'))
    const configure = isMade ? './configure' : 'autoreconf -fi && ./configure'
    const lines = source ? linesIn(tree, source) : []
    const libraries = lines.flatMap(({ text, number }) => {
      const names =
        /\bPKG_CHECK_MODULES[ \t]*\([ \t]*\[?\w{1,60}\]?[ \t]*,[ \t]*\[?([^\])]{1,300})/.exec(text)?.[1] ?? ''
      const plain = names.split(/[ \t,]+/).filter((name) => /^[A-Za-z][\w.+-]*$/.test(name))
      return plain.map((name) => ({ name, evidence: evidenceAt(source ?? '', number, text) }))
    })
    const checks = ['Makefile.am', 'Makefile.in']
      .map((name) => joinPath(directory, name))
      .find((path) => tree.has(path))
    return {
      commands: {
        ...(checks && {
          test: {
            run: `${configure} && make && make check`,
            evidence: evidenceAt(checks, undefined, nameOf(checks)),
          },
        }),
        build: { run: `${configure} && make`, evidence },
      },
      packages: `build-essential pkg-config${isMade ? '' : ' autoconf automake libtool'}`,
      libraries,
      generated: [],
      notes: [],
    }
  },

  make(tree, directory, evidence) {
    const targets = makeTargets(tree, directory)
    const test = targets.find(({ name }) => name === 'test') ?? targets.find(({ name }) => name === 'check')
    const lint = targets.find(({ name }) => name === 'lint')
    return {
      commands: {
        ...(test && {
          test: { run: `make ${test.name}`, evidence: evidenceAt(test.file, test.line, `${test.name}:`) },
        }),
        ...(lint && { lint: { run: 'make lint', evidence: evidenceAt(lint.file, lint.line, 'lint:') } }),
        build: { run: 'make', evidence },
      },
      packages: 'build-essential',
      libraries: linkedLibraries(tree, directory),
      generated: [],
      notes: [],
    }
  },
}

/** Builds first: an existing program may be older than the sources. */
function startOf(build: string, binary: string, program: BuiltProgram): Pick<Part['commands'], 'start'> {
  const path = shellWord(`./${binary}/${builtProgramPath(program)}`)
  return { start: { run: `${build} && ${path}`, evidence: program.evidence } }
}

/** `pkg-config --libs x` in a Makefile. */
function linkedLibraries(tree: FileTree, directory: string): readonly NamedLibrary[] {
  const file = makefileIn(tree, directory)
  if (file === undefined) return []
  return linesIn(tree, file).flatMap(({ text, number }) => {
    const words = /\bpkg-config((?:[ \t]+[\w.+-]{1,60}){1,12})/.exec(text)?.[1] ?? ''
    const names = words.split(/[ \t]+/).filter((word) => word !== '' && !word.startsWith('-'))
    return names.map((name) => ({ name, evidence: evidenceAt(file, number, text) }))
  })
}
