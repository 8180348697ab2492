/** .NET: solutions, and projects without one. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { valueAt } from '../../../util/untrusted-json.ts'
import type { Candidate, Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import type { Detector, Finding, FoundCommand, Verb } from '../finding.ts'
import { evidenceAt, linesIn } from '../project-files/find-lines.ts'
import { ownFiles } from '../project-files/ignored-directories.ts'
import {
  evidenceIn,
  lineOf,
  malformedNote,
  readJsoncFile,
  textAt,
  versionText,
} from '../project-files/parsed-file.ts'
import {
  isWithin,
  MOST_FINDINGS,
  MOST_PARTS,
  nearestAbove,
  pathInProject,
  relativeTo,
} from '../project-files/paths.ts'
import { directoryAndParents, versionFileCandidates } from '../project-files/version-files.ts'
import { elements, elementText, readXmlFile, tableElements } from '../project-files/xml-file.ts'

const PROJECTS = ['.csproj', '.fsproj', '.vbproj']
const SOLUTIONS = ['.sln', '.slnx']
const BESIDE = [
  'Directory.Build.props',
  'Directory.Build.targets',
  'Directory.Packages.props',
  'global.json',
  'nuget.config',
  'NuGet.Config',
  'NuGet.config',
  '.config/dotnet-tools.json',
]

interface Unit {
  readonly directory: string
  /** The solution, or the project if there is none. */
  readonly file: string
  readonly others: readonly string[]
  readonly projects: readonly string[]
}

export const detectDotnet: Detector = (tree) => {
  const solutions = ownFiles(SOLUTIONS.flatMap((suffix) => tree.ending(suffix)))
  const projects = ownFiles(PROJECTS.flatMap((suffix) => tree.ending(suffix)))
  const units = new Map<string, Unit>()
  for (const file of solutions) {
    const directory = directoryOf(file)
    const known = units.get(directory)
    if (known) units.set(directory, { ...known, others: [...known.others, file] })
    else if (![...units.keys()].some((above) => isWithin(directory, above)))
      units.set(directory, { directory, file, others: [], projects: solutionProjects(tree, file, projects) })
  }
  const taken = new Set([...units.values()].flatMap((unit) => unit.projects))
  const alone = projects.filter(
    (file) => !taken.has(file) && ![...units.keys()].some((above) => isWithin(directoryOf(file), above)),
  )
  const referred = new Set(alone.flatMap((file) => references(tree, file)))
  const roots = alone.filter((file) => !referred.has(file))
  for (const file of roots.length > 0 ? roots : alone.slice(0, 1)) {
    if (units.has(directoryOf(file))) continue
    units.set(directoryOf(file), {
      directory: directoryOf(file),
      file,
      others: [],
      projects: withReferences(tree, file),
    })
  }
  return [...units.values()].slice(0, MOST_FINDINGS).map((unit) => findingOf(tree, unit))
}

/** Projects that a solution names; if none can be read, those below it. */
function solutionProjects(tree: FileTree, file: string, projects: readonly string[]): readonly string[] {
  const directory = directoryOf(file)
  const named = linesIn(tree, file).flatMap(({ text }) => {
    const path = /"([^"]{1,300}\.(?:cs|fs|vb)proj)"/.exec(text)?.[1]
    const found = path === undefined ? undefined : pathInProject(directory, path)
    return found !== undefined && tree.has(found) ? [found] : []
  })
  const all = named.length > 0 ? named : projects.filter((path) => isWithin(directoryOf(path), directory))
  return [...new Set(all)].slice(0, MOST_PARTS)
}

function references(tree: FileTree, file: string): readonly string[] {
  const project = valueAt(readXmlFile(tree, file)?.data, 'Project')
  return tableElements(valueAt(project, 'ItemGroup'))
    .flatMap((group) => tableElements(valueAt(group, 'ProjectReference')))
    .flatMap((one) => {
      const path = pathInProject(directoryOf(file), textAt(one, '@Include') ?? '')
      return path !== undefined && tree.has(path) ? [path] : []
    })
}

function withReferences(tree: FileTree, file: string): readonly string[] {
  const found = new Set<string>()
  const waiting = [file]
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (found.has(next) || found.size >= MOST_PARTS) continue
    found.add(next)
    waiting.push(...references(tree, next))
  }
  return [...found]
}

function findingOf(tree: FileTree, unit: Unit): Finding {
  const { directory, file, others, projects } = unit
  const evidence = evidenceAt(file, undefined, nameOf(file))
  const notes = [
    'packages come from hosts without a preset: allow the hosts of NuGet and of the configured sources',
  ]
  for (const path of projects) {
    const problem = readXmlFile(tree, path)?.problem
    if (problem) notes.push(malformedNote(path, problem))
  }
  if (others.length > 0) notes.push(`there are several solutions; ${nameOf(file)} is used`)
  const frameworks = projects.flatMap((path) => frameworksOf(tree, path))
  if (frameworks.some(({ name }) => /^net\d{2,3}$/.test(name)))
    notes.push('parts of the project need .NET Framework, which runs only on Windows')
  const program = programOf(tree, projects)
  const ports = program ? portsOf(tree, program) : []
  const lockfiles = projects
    .map((path) => joinPath(directoryOf(path), 'packages.lock.json'))
    .filter((path) => tree.has(path))
  return {
    language: 'dotnet',
    directory,
    evidence,
    versions: [
      ...sdkOf(tree, directory),
      ...versionFileCandidates(tree, directory, 'dotnet'),
      ...versionsOf(frameworks),
    ],
    manager: { name: 'nuget', evidence, beat: [] },
    tools: [],
    ...(lockfiles[0] && { lockfile: lockfiles[0] }),
    inputs: inputsOf(tree, unit, lockfiles),
    commands: commandsOf(tree, unit, { evidence, program, isLocked: lockfiles.length > 0 }),
    packages: [],
    generated: projects.flatMap((path) => ['obj', 'bin'].map((name) => joinPath(directoryOf(path), name))),
    presets: [],
    ...(ports.length > 0 && { ports }),
    ...(projects.length > 1 && { members: projects.map((path) => nameOf(path).replace(/\.\w+$/, '')) }),
    notes,
  }
}

function sdkOf(tree: FileTree, directory: string): readonly Candidate[] {
  const file = nearestAbove(tree, directory, ['global.json'])
  const read = file ? readJsoncFile(tree, file) : undefined
  const value = versionText(textAt(read?.data, 'sdk', 'version'))
  if (!file || !read || !value) return []
  return [
    {
      value,
      rank: 'version file',
      evidence: evidenceIn(file, read.text, ['"sdk"', '"version"'], `"version": "${value}"`),
    },
  ]
}

interface Framework {
  readonly name: string
  readonly evidence: Evidence
}

/** From the project, or from shared properties. */
function frameworksOf(tree: FileTree, file: string): readonly Framework[] {
  const shared = directoryAndParents(directoryOf(file)).map((above) =>
    joinPath(above, 'Directory.Build.props'),
  )
  for (const path of [file, ...shared]) {
    const read = readXmlFile(tree, path)
    const groups = tableElements(valueAt(read?.data, 'Project', 'PropertyGroup'))
    const written = groups.flatMap((group) =>
      ['TargetFramework', 'TargetFrameworks'].flatMap((key) =>
        elements(valueAt(group, key)).flatMap((one) => elementText(one) ?? []),
      ),
    )
    const names = written
      .join(';')
      .split(';')
      .map((name) => name.trim())
      .filter((name) => /^net[\w.-]{1,40}$/.test(name))
    if (names.length > 0) {
      const line = lineOf(read?.text ?? '', '<TargetFramework')
      return [...new Set(names)].map((name) => ({
        name,
        evidence: evidenceAt(path, line, `<TargetFramework>${name}`),
      }))
    }
  }
  return []
}

/** `net8.0` and `netcoreapp3.1` are versions of the SDK, the highest first; others are not. */
function versionsOf(frameworks: readonly Framework[]): readonly Candidate[] {
  const found = new Map<string, Candidate>()
  for (const { name, evidence } of frameworks) {
    const value = /^net(?:coreapp)?(\d{1,2}\.\d{1,2})/.exec(name)?.[1]
    if (value !== undefined && !found.has(value)) found.set(value, { value, rank: 'manifest', evidence })
  }
  return [...found.values()].toSorted((a, b) => Number(b.value) - Number(a.value))
}

/** The only project that builds a program. */
function programOf(tree: FileTree, projects: readonly string[]): string | undefined {
  const programs = projects.filter((path) => {
    const project = valueAt(readXmlFile(tree, path)?.data, 'Project')
    if (isTestProject(tree, path)) return false
    if (/Sdk\.(?:Web|Worker)$/.test(textAt(project, '@Sdk') ?? '')) return true
    return tableElements(valueAt(project, 'PropertyGroup')).some((group) =>
      /^(?:Win)?Exe$/i.test(elementText(valueAt(group, 'OutputType')) ?? ''),
    )
  })
  return programs.length === 1 ? programs[0] : undefined
}

function isTestProject(tree: FileTree, path: string): boolean {
  const groups = tableElements(valueAt(readXmlFile(tree, path)?.data, 'Project', 'ItemGroup'))
  const packages = groups.flatMap((group) => tableElements(valueAt(group, 'PackageReference')))
  return packages.some((one) =>
    /^(?:Microsoft\.NET\.Test\.Sdk|TUnit|MSTest)$/.test(textAt(one, '@Include') ?? ''),
  )
}

function portsOf(tree: FileTree, program: string) {
  const file = joinPath(directoryOf(program), 'Properties/launchSettings.json')
  const read = readJsoncFile(tree, file)
  const port = /"applicationUrl"[^\n]{0,300}?http:\/\/[^:;"\n]{1,100}:(\d{2,5})/.exec(read?.text ?? '')?.[1]
  if (!read || port === undefined) return []
  return [
    {
      port: Number(port),
      evidence: evidenceIn(file, read.text, ['"applicationUrl"'], `applicationUrl :${port}`),
    },
  ]
}

function inputsOf(
  tree: FileTree,
  { directory, file, projects }: Unit,
  lockfiles: readonly string[],
): readonly string[] {
  const directories = new Set([directory, ...projects.map(directoryOf)].flatMap(directoryAndParents))
  const beside = [...directories].toSorted().flatMap((above) => BESIDE.map((name) => joinPath(above, name)))
  return [...new Set([file, ...projects, ...lockfiles, ...beside])].filter((path) => tree.has(path))
}

function commandsOf(
  tree: FileTree,
  { directory, file, others, projects }: Unit,
  about: { evidence: Evidence; program: string | undefined; isLocked: boolean },
): Partial<Record<Verb, FoundCommand>> {
  const { evidence, program } = about
  const several =
    others.length > 0 ||
    tree.in(directory).filter((name) => PROJECTS.some((suffix) => name.endsWith(suffix))).length > 1
  const which = several ? ` ${shellWord(nameOf(file))}` : ''
  const tools = tree.has(joinPath(directory, '.config/dotnet-tools.json')) ? ' && dotnet tool restore' : ''
  const test = projects.find((path) => isTestProject(tree, path))
  const style = nearestAbove(tree, directory, ['.editorconfig'])
  const run = program && {
    run: `dotnet run --project ${shellWord(relativeTo(directory, program))}`,
    evidence: evidenceAt(program, undefined, 'the only program'),
  }
  return {
    setup: { run: `dotnet restore${which}${about.isLocked ? ' --locked-mode' : ''}${tools}`, evidence },
    ...(run && { dev: run }),
    ...(test && {
      test: {
        run: `dotnet test${which}`,
        evidence: evidenceIn(test, readXmlFile(tree, test)?.text ?? '', ['<PackageReference'], nameOf(test)),
      },
    }),
    ...(style && {
      lint: {
        run: `dotnet format${which} --verify-no-changes`,
        evidence: evidenceAt(style, undefined, '.editorconfig'),
      },
    }),
    build: { run: `dotnet build${which}`, evidence },
    ...(run && { start: { ...run, run: run.run.replace('dotnet run', 'dotnet run -c Release') } }),
  }
}
