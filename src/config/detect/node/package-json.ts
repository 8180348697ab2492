/** A package.json, and the workspace it may be the root of. */
import { type JsonObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import { evidenceIn, readJsonFile, shortQuote, stringsAt, textAt } from '../project-files/parsed-file.ts'
import { isWithin, relativeTo } from '../project-files/paths.ts'
import { isMember } from '../project-files/workspace-pattern.ts'
import { readYamlFile } from '../project-files/yaml-file.ts'

export interface PackageJson {
  readonly file: string
  readonly directory: string
  readonly name: string
  readonly text: string
  readonly data: JsonObject
  readonly problem?: string | undefined
  readonly scripts: ReadonlyMap<string, string>
  /** Dependencies of every kind, by name. */
  readonly dependencies: ReadonlyMap<string, string>
}

const KINDS = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies']
const MOST_PACKAGES = 1000
/** A file of a megabyte can name very many. */
const MOST_ENTRIES = 5000
/** Limits the text that patterns run on. */
const LONGEST = 2000

/** Every package of the project, nearest to the root first. */
export function nodeManifests(tree: FileTree): readonly PackageJson[] {
  return tree
    .named('package.json')
    .filter((file) => !directoryOf(file).split('/').includes('node_modules'))
    .slice(0, MOST_PACKAGES)
    .flatMap((file) => {
      const manifest = readManifest(tree, file)
      return manifest ? [manifest] : []
    })
}

function readManifest(tree: FileTree, file: string): PackageJson | undefined {
  const read = readJsonFile(tree, file)
  if (!read) return undefined
  const directory = directoryOf(file)
  const texts = (key: string): (readonly [string, string])[] =>
    Object.entries(objectAt(read.data, key))
      .slice(0, MOST_ENTRIES)
      .flatMap(([name, value]) =>
        typeof value === 'string' ? [[name, value.slice(0, LONGEST)] as const] : [],
      )
  return {
    file,
    directory,
    name: textAt(read.data, 'name') ?? nameOf(directory),
    text: read.text,
    data: read.data,
    problem: read.problem,
    scripts: new Map(texts('scripts')),
    dependencies: new Map(KINDS.toReversed().flatMap(texts)),
  }
}

/** Whether there is anything to install or run: many manifests only set the module type of nearby files. */
export function isProject({ scripts, dependencies, problem }: PackageJson): boolean {
  return scripts.size > 0 || dependencies.size > 0 || problem !== undefined
}

export function saysIn({ file, text }: PackageJson, words: readonly string[], said: string): Evidence {
  return evidenceIn(file, text, words, said)
}

export function scriptEvidence(manifest: PackageJson, name: string): Evidence {
  const said = `"${name}": ${JSON.stringify(manifest.scripts.get(name) ?? '')}`
  return saysIn(manifest, ['"scripts"', `"${name}"`], said)
}

export function dependencyEvidence(manifest: PackageJson, name: string): Evidence {
  const kind = KINDS.find((one) => Object.hasOwn(objectAt(manifest.data, one), name)) ?? 'dependencies'
  return saysIn(
    manifest,
    [`"${kind}"`, `"${name}"`],
    `"${name}": ${JSON.stringify(manifest.dependencies.get(name) ?? '')}`,
  )
}

export interface NodeWorkspace {
  readonly root: PackageJson
  readonly members: readonly PackageJson[]
  /** Files besides the manifest that define the workspace. */
  readonly files: readonly string[]
  /** Whether the package manager itself knows of the members. */
  readonly isLinked: boolean
  readonly notes: readonly string[]
}

/** Packages grouped by the root that installs them. A package in no workspace is its own root. */
export function nodeWorkspaces(tree: FileTree, manifests: readonly PackageJson[]): readonly NodeWorkspace[] {
  const taken = new Set<string>()
  return manifests.flatMap((root) => {
    if (taken.has(root.file)) return []
    const { patterns, files, isLinked, notes } = patternsOf(tree, root)
    const members = (patterns.length === 0 ? [] : manifests).filter(
      (one) =>
        one !== root &&
        !taken.has(one.file) &&
        isWithin(one.directory, root.directory) &&
        isMember(relativeTo(root.directory, one.directory), patterns),
    )
    for (const { file } of members) taken.add(file)
    return [{ root, members, files, isLinked, notes }]
  })
}

interface Patterns {
  readonly patterns: readonly string[]
  readonly files: readonly string[]
  readonly isLinked: boolean
  readonly notes: readonly string[]
}

const MOST_PATTERNS = 100

function patternsOf(tree: FileTree, root: PackageJson): Patterns {
  const notes: string[] = []
  const pnpmFile = joinPath(root.directory, 'pnpm-workspace.yaml')
  const pnpm = readYamlFile(tree, pnpmFile)
  if (pnpm?.problem !== undefined) notes.push(`${shortQuote(pnpmFile)} was not understood: ${pnpm.problem}`)
  const own = valueAt(root.data, 'workspaces')
  const linked = [
    ...stringsAt(pnpm?.data, 'packages'),
    ...stringsAt(root.data, 'workspaces'),
    ...stringsAt(own, 'packages'),
  ]
  const files = ['pnpm-workspace.yaml', 'lerna.json', 'nx.json', 'turbo.json', 'rush.json']
    .map((name) => joinPath(root.directory, name))
    .filter((file) => tree.has(file))
  if (files.some((file) => nameOf(file) === 'rush.json'))
    notes.push('this repository is installed by Rush, which is not supported')
  if (linked.length > 0) return { patterns: linked.slice(0, MOST_PATTERNS), files, isLinked: true, notes }
  const lerna = readJsonFile(tree, joinPath(root.directory, 'lerna.json'))
  if (!lerna) return { patterns: [], files, isLinked: false, notes }
  const packages = stringsAt(lerna.data, 'packages')
  const patterns = packages.length > 0 ? packages.slice(0, MOST_PATTERNS) : ['packages/*']
  return { patterns, files, isLinked: false, notes }
}
