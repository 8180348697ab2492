/** .NET: solutions, and projects without one. */

import { shellWord } from '../../util/shell-word.ts'
import type { Candidate, Evidence } from '../evidence.ts'
import { directoryOf, type FileTree, nameOf, within } from '../tree.ts'
import { worthwhile } from './aside.ts'
import type { Detector, Finding, FoundCommand, Verb } from './finding.ts'
import { inside, isWithin, MOST_FINDINGS, MOST_PARTS, nearestAbove, relativeTo } from './place.ts'
import { at, evidenceIn, lineOf, malformed, readJsonc, textAt, versionText } from './reading.ts'
import { evidenceAt, linesIn } from './seek.ts'
import { sharedVersions, withParents } from './shared-versions.ts'
import { elementText, many, manyTables, readXml } from './xml-file.ts'

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
  /** The solution, or the project where there is none. */
  readonly file: string
  readonly others: readonly string[]
  readonly projects: readonly string[]
}

export const detectDotnet: Detector = (tree) => {
  const solutions = worthwhile(SOLUTIONS.flatMap((suffix) => tree.ending(suffix)))
  const projects = worthwhile(PROJECTS.flatMap((suffix) => tree.ending(suffix)))
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

/** Those that a solution names; where none can be read out of it, those below it. */
function solutionProjects(tree: FileTree, file: string, projects: readonly string[]): readonly string[] {
  const directory = directoryOf(file)
  const named = linesIn(tree, file).flatMap(({ text }) => {
    const path = /"([^"]{1,300}\.(?:cs|fs|vb)proj)"/.exec(text)?.[1]
    const found = path === undefined ? undefined : inside(directory, path)
    return found !== undefined && tree.has(found) ? [found] : []
  })
  const all = named.length > 0 ? named : projects.filter((path) => isWithin(directoryOf(path), directory))
  return [...new Set(all)].slice(0, MOST_PARTS)
}

function references(tree: FileTree, file: string): readonly string[] {
  const project = at(readXml(tree, file)?.data, 'Project')
  return manyTables(at(project, 'ItemGroup'))
    .flatMap((group) => manyTables(at(group, 'ProjectReference')))
    .flatMap((one) => {
      const path = inside(directoryOf(file), textAt(one, '@Include') ?? '')
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
    'packages come from a host that no preset covers: allow those of NuGet and of the sources that are configured',
  ]
  for (const path of projects) {
    const problem = readXml(tree, path)?.problem
    if (problem) notes.push(malformed(path, problem))
  }
  if (others.length > 0) notes.push(`there are several solutions; ${nameOf(file)} is the one that is used`)
  const frameworks = projects.flatMap((path) => frameworksOf(tree, path))
  if (frameworks.some(({ name }) => /^net\d{2,3}$/.test(name)))
    notes.push('some of it is for .NET Framework, which runs on Windows alone')
  const program = programOf(tree, projects)
  const ports = program ? portsOf(tree, program) : []
  const lockfiles = projects
    .map((path) => within(directoryOf(path), 'packages.lock.json'))
    .filter((path) => tree.has(path))
  return {
    language: 'dotnet',
    directory,
    evidence,
    versions: [
      ...sdkOf(tree, directory),
      ...sharedVersions(tree, directory, 'dotnet'),
      ...versionsOf(frameworks),
    ],
    manager: { name: 'nuget', evidence, beat: [] },
    tools: [],
    ...(lockfiles[0] && { lockfile: lockfiles[0] }),
    inputs: inputsOf(tree, unit, lockfiles),
    commands: commandsOf(tree, unit, { evidence, program, isLocked: lockfiles.length > 0 }),
    packages: [],
    generated: projects.flatMap((path) => ['obj', 'bin'].map((name) => within(directoryOf(path), name))),
    presets: [],
    ...(ports.length > 0 && { ports }),
    ...(projects.length > 1 && { members: projects.map((path) => nameOf(path).replace(/\.\w+$/, '')) }),
    notes,
  }
}

function sdkOf(tree: FileTree, directory: string): readonly Candidate[] {
  const file = nearestAbove(tree, directory, ['global.json'])
  const read = file ? readJsonc(tree, file) : undefined
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

/** A project's own, or that of the properties it shares with others. */
function frameworksOf(tree: FileTree, file: string): readonly Framework[] {
  const shared = withParents(directoryOf(file)).map((above) => within(above, 'Directory.Build.props'))
  for (const path of [file, ...shared]) {
    const read = readXml(tree, path)
    const groups = manyTables(at(read?.data, 'Project', 'PropertyGroup'))
    const written = groups.flatMap((group) =>
      ['TargetFramework', 'TargetFrameworks'].flatMap((key) =>
        many(at(group, key)).flatMap((one) => elementText(one) ?? []),
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

/** The only project that is a program. */
function programOf(tree: FileTree, projects: readonly string[]): string | undefined {
  const programs = projects.filter((path) => {
    const project = at(readXml(tree, path)?.data, 'Project')
    if (isTestProject(tree, path)) return false
    if (/Sdk\.(?:Web|Worker)$/.test(textAt(project, '@Sdk') ?? '')) return true
    return manyTables(at(project, 'PropertyGroup')).some((group) =>
      /^(?:Win)?Exe$/i.test(elementText(at(group, 'OutputType')) ?? ''),
    )
  })
  return programs.length === 1 ? programs[0] : undefined
}

function isTestProject(tree: FileTree, path: string): boolean {
  const groups = manyTables(at(readXml(tree, path)?.data, 'Project', 'ItemGroup'))
  const packages = groups.flatMap((group) => manyTables(at(group, 'PackageReference')))
  return packages.some((one) =>
    /^(?:Microsoft\.NET\.Test\.Sdk|TUnit|MSTest)$/.test(textAt(one, '@Include') ?? ''),
  )
}

function portsOf(tree: FileTree, program: string) {
  const file = within(directoryOf(program), 'Properties/launchSettings.json')
  const read = readJsonc(tree, file)
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
  const directories = new Set([directory, ...projects.map(directoryOf)].flatMap(withParents))
  const beside = [...directories].toSorted().flatMap((above) => BESIDE.map((name) => within(above, name)))
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
  const tools = tree.has(within(directory, '.config/dotnet-tools.json')) ? ' && dotnet tool restore' : ''
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
        evidence: evidenceIn(test, readXml(tree, test)?.text ?? '', ['<PackageReference'], nameOf(test)),
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
