/** Go: modules, and workspaces of them. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import type { Candidate, Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import type { Detector, Finding, FoundCommand, FoundTool, Verb } from '../finding.ts'
import { evidenceAt, type FileLine, findLine, linesIn } from '../project-files/find-lines.ts'
import { ownFiles } from '../project-files/ignored-directories.ts'
import { versionText } from '../project-files/parsed-file.ts'
import { MOST_FINDINGS, MOST_PARTS, nearestAbove, pathInProject, relativeTo } from '../project-files/paths.ts'
import { versionFileCandidates } from '../project-files/version-files.ts'
import { goPackages } from './system-packages.ts'

interface Unit {
  readonly directory: string
  /** The main file: go.work or go.mod. */
  readonly file: string
  readonly evidence: Evidence
  /** Directories of the modules. */
  readonly modules: readonly string[]
  readonly notes: readonly string[]
}

const LINTER_FILES = ['.golangci.yml', '.golangci.yaml', '.golangci.toml', '.golangci.json']

export const detectGo: Detector = (tree) => {
  const units = unitsOf(tree)
  return units.length === 0
    ? loneProgram(tree)
    : units.slice(0, MOST_FINDINGS).map((unit) => findingOf(tree, unit))
}

function unitsOf(tree: FileTree): readonly Unit[] {
  const workspaces = ownFiles(tree.named('go.work')).map((file) => workspaceOf(tree, file))
  const taken = new Set(workspaces.flatMap(({ modules }) => modules))
  const modules = ownFiles(tree.named('go.mod')).filter((file) => !taken.has(directoryOf(file)))
  return [
    ...workspaces.filter((one) => one.modules.length > 0),
    ...modules.map((file) => moduleOf(tree, file)),
  ]
}

function moduleOf(tree: FileTree, file: string): Unit {
  const found = findLine(linesIn(tree, file), /^module[ \t]+\S/)
  const notes = found ? [] : [`${file} does not name its module`]
  const evidence = evidenceAt(file, found?.line, found?.match.input ?? 'a Go module')
  return { directory: directoryOf(file), file, evidence, modules: [directoryOf(file)], notes }
}

function workspaceOf(tree: FileTree, file: string): Unit {
  const directory = directoryOf(file)
  const used = directives(linesIn(tree, file), 'use').slice(0, MOST_PARTS)
  const modules = new Set<string>()
  const notes: string[] = []
  for (const { words } of used) {
    const path = pathInProject(directory, unquoted(words[0] ?? ''))
    if (path === undefined) notes.push(`${file} uses a module outside the project`)
    else if (tree.has(joinPath(path, 'go.mod'))) modules.add(path)
    else notes.push(`${file} uses ${path || '.'}, which has no go.mod`)
  }
  const evidence = evidenceAt(file, used[0]?.line, 'a Go workspace')
  return { directory, file, evidence, modules: [...modules], notes: [...new Set(notes)] }
}

interface Directive {
  readonly words: readonly string[]
  readonly line: number
}

/** Every `use x`, and every line of `use ( ... )`. */
function directives(lines: readonly FileLine[], word: string): readonly Directive[] {
  const found: Directive[] = []
  let open = false
  for (const { text, number } of lines) {
    const words: readonly string[] = (text.split('//', 1)[0] ?? '').match(/"[^"]*"|`[^`]*`|[^ \t]+/g) ?? []
    if (open) {
      if (words[0] === ')') open = false
      else if (words.length > 0) found.push({ words, line: number })
    } else if (words[0] === word || words[0] === `${word}(`) {
      if (words.at(-1)?.endsWith('(')) open = true
      else if (words.length > 1) found.push({ words: words.slice(1), line: number })
    }
  }
  return found
}

function unquoted(word: string): string {
  return word.replace(/^["`]/, '').replace(/["`]$/, '')
}

function findingOf(tree: FileTree, unit: Unit): Finding {
  const { directory, file, evidence, modules } = unit
  const isWorkspace = nameOf(file) === 'go.work'
  const vendored = joinPath(directory, 'vendor/modules.txt')
  const isVendored = tree.has(vendored)
  const linter = nearestAbove(tree, directory, LINTER_FILES)
  const tools: FoundTool[] = linter
    ? [{ name: 'golangci-lint', evidence: evidenceAt(linter, undefined, nameOf(linter)) }]
    : []
  const notes = [...unit.notes]
  if (isVendored) notes.push(`${vendored} is there: nothing has to be downloaded`)
  if (linter) notes.push(`golangci-lint, which ${linter} configures, is no part of Go and must be installed`)
  const programs = modules.flatMap((module) => programsOf(tree, module))
  if (programs.length > 1)
    notes.push(`several programs, none of which is the one to run: ${listed(programs)}`)
  return {
    language: 'go',
    directory,
    evidence,
    versions: [...modFiles(unit).flatMap((path) => versionsIn(tree, path)), ...filesOf(tree, directory)],
    manager: { name: 'go', evidence, beat: [] },
    tools,
    ...lockfileOf(tree, directory, isWorkspace),
    inputs: inputsOf(tree, unit),
    commands: commandsOf(unit, {
      linter,
      program: programs.length === 1 ? programs[0] : undefined,
      isVendored,
    }),
    packages: goPackages(requirements(tree, modules)),
    generated: [],
    presets: ['go'],
    ...(isWorkspace && { members: modules.map((module) => relativeTo(directory, module)) }),
    ...(notes.length > 0 && { notes }),
  }
}

function listed(names: readonly string[]): string {
  return names.length > 8 ? `${names.slice(0, 8).join(', ')}, ...` : names.join(', ')
}

function modFiles({ file, modules }: Unit): readonly string[] {
  return [...new Set([file, ...modules.map((module) => joinPath(module, 'go.mod'))])]
}

function versionsIn(tree: FileTree, file: string): readonly Candidate[] {
  const lines = linesIn(tree, file)
  const toolchain = findLine(lines, /^toolchain[ \t]+go(\d[\w.]*)/)
  const language = findLine(lines, /^go[ \t]+(\d[\w.]*)/)
  return [
    ...(toolchain ? [candidate(file, toolchain.line, toolchain.match, 'version file')] : []),
    ...(language ? [candidate(file, language.line, language.match, 'manifest')] : []),
  ]
}

function candidate(
  file: string,
  line: number,
  match: RegExpExecArray,
  rank: 'version file' | 'manifest',
): Candidate {
  return { value: match[1] ?? '', rank, evidence: evidenceAt(file, line, match[0]) }
}

function filesOf(tree: FileTree, directory: string): readonly Candidate[] {
  const file = nearestAbove(tree, directory, ['.go-version'])
  const first = file ? findLine(linesIn(tree, file), /^[ \t]*(?:go)?(\d[\w.]*)[ \t]*$/) : undefined
  const value = versionText(first?.match[1])
  const own: Candidate[] =
    file && first && value
      ? [{ value, rank: 'version file', evidence: evidenceAt(file, first.line, first.match[0]) }]
      : []
  return [...own, ...versionFileCandidates(tree, directory, 'go')]
}

function lockfileOf(tree: FileTree, directory: string, isWorkspace: boolean): { lockfile?: string } {
  const lockfile = joinPath(directory, isWorkspace ? 'go.work.sum' : 'go.sum')
  return tree.has(lockfile) ? { lockfile } : {}
}

/**
 * Also reads modules that replace others, but not their replacements: Go only follows those of the main
 * modules.
 */
function inputsOf(tree: FileTree, { directory, file, modules }: Unit): readonly string[] {
  const replaced = modules.flatMap((module) => replacements(tree, module))
  const files = [
    file,
    joinPath(directory, 'go.work.sum'),
    ...[...modules, ...replaced].flatMap((module) => [
      joinPath(module, 'go.mod'),
      joinPath(module, 'go.sum'),
    ]),
    ...(file.endsWith('go.work') ? directories(tree, directory, file) : []),
  ]
  return [...new Set(files)].filter((path) => tree.has(path))
}

function replacements(tree: FileTree, module: string): readonly string[] {
  return directories(tree, module, joinPath(module, 'go.mod')).map(directoryOf)
}

/** The go.mod of every directory that a file uses as a replacement. */
function directories(tree: FileTree, directory: string, file: string): readonly string[] {
  return directives(linesIn(tree, file), 'replace')
    .slice(0, MOST_PARTS)
    .flatMap(({ words }) => {
      const target = unquoted(words[words.indexOf('=>') + 1] ?? '')
      const path = target.startsWith('.') ? pathInProject(directory, target) : undefined
      return path === undefined ? [] : [joinPath(path, 'go.mod')]
    })
}

function requirements(tree: FileTree, modules: readonly string[]) {
  return modules.flatMap((module) => {
    const file = joinPath(module, 'go.mod')
    return directives(linesIn(tree, file), 'require').map(({ words, line }) => ({
      name: unquoted(words[0] ?? ''),
      evidence: evidenceAt(file, line, words.slice(0, 2).join(' ')),
    }))
  })
}

/** Directories of programs, relative to the project: the module's own directory, or those under cmd. */
function programsOf(tree: FileTree, module: string): readonly string[] {
  const main = joinPath(module, 'main.go')
  if (tree.has(main) && findLine(linesIn(tree, main), /^package[ \t]+main\b/)) return [module]
  const commands = joinPath(module, 'cmd')
  const names = new Set<string>()
  for (const path of tree.below(commands)) {
    if (!path.endsWith('/main.go')) continue
    const directory = directoryOf(path)
    if (directoryOf(directory) === commands || directory === commands) names.add(directory)
  }
  return [...names]
}

function commandsOf(
  unit: Unit,
  about: { linter: string | undefined; program: string | undefined; isVendored: boolean },
): Partial<Record<Verb, FoundCommand>> {
  const { directory, evidence, modules } = unit
  // In a workspace, `./...` means only the module of that directory, or is an error if it has none.
  const all = modules.map((module) => shellWord(packages(directory, module))).join(' ')
  const lint: FoundCommand = about.linter
    ? { run: 'golangci-lint run', evidence: evidenceAt(about.linter, undefined, nameOf(about.linter)) }
    : { run: `go vet ${all}`, evidence }
  const path = about.program === undefined ? undefined : dotted(relativeTo(directory, about.program))
  const run =
    path === undefined
      ? undefined
      : { run: `go run ${shellWord(path)}`, evidence: programEvidence(about.program) }
  return {
    ...(!about.isVendored && { setup: { run: GO_SETUP, evidence } }),
    ...(run && { dev: run }),
    test: { run: `go test ${all}`, evidence },
    lint,
    build: { run: `go build ${all}`, evidence },
    ...(run && { start: run }),
  }
}

/**
 * Compiles the required modules in advance, and the standard packages that nearly every Go program and test
 * uses: that takes longer than the project's own code, and would be repeated in every sandbox. Compile errors
 * are left to the project's own build.
 */
export const GO_SETUP = `go mod download
{ go list -m -f '{{if not (or .Main .Indirect)}}{{.Path}}/...{{end}}' all | xargs -r go build; go build net/http testing; } >/dev/null 2>&1 || true`

function packages(directory: string, module: string): string {
  const path = dotted(relativeTo(directory, module))
  return path === '.' ? './...' : `${path}/...`
}

function dotted(path: string): string {
  return path.startsWith('.') ? path : `./${path}`
}

function programEvidence(program: string | undefined): Evidence {
  return evidenceAt(joinPath(program ?? '', 'main.go'), undefined, 'package main')
}

/** A program without a module: it can only be built and run. */
function loneProgram(tree: FileTree): readonly Finding[] {
  const found = findLine(linesIn(tree, 'main.go'), /^package[ \t]+main\b/)
  if (!found) return []
  const evidence = evidenceAt('main.go', found.line, 'package main')
  const run = { run: 'go run main.go', evidence }
  return [
    {
      language: 'go',
      directory: '',
      evidence,
      versions: filesOf(tree, ''),
      tools: [],
      inputs: [],
      commands: { dev: run, build: { run: 'go build main.go', evidence }, start: run },
      packages: [],
      generated: [],
      presets: ['go'],
      notes: ['there is no go.mod: `go mod init` makes one, and packages can be fetched then'],
    },
  ]
}
