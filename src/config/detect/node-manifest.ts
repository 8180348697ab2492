/** A package.json, and the workspace it may be the root of. */
import type { Evidence } from '../evidence.ts'
import { directoryOf, type FileTree, nameOf, within } from '../tree.ts'
import { isMember } from './directory-pattern.ts'
import { isWithin, relativeTo } from './place.ts'
import { at, evidenceIn, readJson, short, type Table, tableAt, textAt, textsAt } from './reading.ts'
import { readYaml } from './yaml-file.ts'

export interface Manifest {
  readonly file: string
  readonly directory: string
  readonly name: string
  readonly text: string
  readonly data: Table
  readonly problem?: string | undefined
  readonly scripts: ReadonlyMap<string, string>
  /** Of every kind, by name. */
  readonly dependencies: ReadonlyMap<string, string>
}

const KINDS = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies']
const MOST_PACKAGES = 1000
/** A file of a megabyte can name very many. */
const MOST_ENTRIES = 5000
/** Patterns are tried on each. */
const LONGEST = 2000

/** Every package of the project, nearest to the root first. */
export function nodeManifests(tree: FileTree): readonly Manifest[] {
  return tree
    .named('package.json')
    .filter((file) => !directoryOf(file).split('/').includes('node_modules'))
    .slice(0, MOST_PACKAGES)
    .flatMap((file) => {
      const manifest = readManifest(tree, file)
      return manifest ? [manifest] : []
    })
}

function readManifest(tree: FileTree, file: string): Manifest | undefined {
  const read = readJson(tree, file)
  if (!read) return undefined
  const directory = directoryOf(file)
  const texts = (key: string): (readonly [string, string])[] =>
    Object.entries(tableAt(read.data, key))
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

/** Whether there is anything to install or to run: many only say how the files beside them are to be read. */
export function isProject({ scripts, dependencies, problem }: Manifest): boolean {
  return scripts.size > 0 || dependencies.size > 0 || problem !== undefined
}

export function saysIn({ file, text }: Manifest, words: readonly string[], said: string): Evidence {
  return evidenceIn(file, text, words, said)
}

export function scriptEvidence(manifest: Manifest, name: string): Evidence {
  const said = `"${name}": ${JSON.stringify(manifest.scripts.get(name) ?? '')}`
  return saysIn(manifest, ['"scripts"', `"${name}"`], said)
}

export function dependencyEvidence(manifest: Manifest, name: string): Evidence {
  const kind = KINDS.find((one) => Object.hasOwn(tableAt(manifest.data, one), name)) ?? 'dependencies'
  return saysIn(
    manifest,
    [`"${kind}"`, `"${name}"`],
    `"${name}": ${JSON.stringify(manifest.dependencies.get(name) ?? '')}`,
  )
}

export interface Workspace {
  readonly root: Manifest
  readonly members: readonly Manifest[]
  /** Files that say so, beside the manifest. */
  readonly files: readonly string[]
  /** Whether the package manager itself knows of the members. */
  readonly isLinked: boolean
  readonly notes: readonly string[]
}

/** Packages by the root that installs them. A package that no workspace names is one of its own. */
export function nodeWorkspaces(tree: FileTree, manifests: readonly Manifest[]): readonly Workspace[] {
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

function patternsOf(tree: FileTree, root: Manifest): Patterns {
  const notes: string[] = []
  const pnpmFile = within(root.directory, 'pnpm-workspace.yaml')
  const pnpm = readYaml(tree, pnpmFile)
  if (pnpm?.problem !== undefined) notes.push(`${short(pnpmFile)} was not understood: ${pnpm.problem}`)
  const own = at(root.data, 'workspaces')
  const linked = [
    ...textsAt(pnpm?.data, 'packages'),
    ...textsAt(root.data, 'workspaces'),
    ...textsAt(own, 'packages'),
  ]
  const files = ['pnpm-workspace.yaml', 'lerna.json', 'nx.json', 'turbo.json', 'rush.json']
    .map((name) => within(root.directory, name))
    .filter((file) => tree.has(file))
  if (files.some((file) => nameOf(file) === 'rush.json'))
    notes.push('Rush installs this repository by a tool of its own, which is not supported')
  if (linked.length > 0) return { patterns: linked.slice(0, MOST_PATTERNS), files, isLinked: true, notes }
  const lerna = readJson(tree, within(root.directory, 'lerna.json'))
  if (!lerna) return { patterns: [], files, isLinked: false, notes }
  const packages = textsAt(lerna.data, 'packages')
  const patterns = packages.length > 0 ? packages.slice(0, MOST_PATTERNS) : ['packages/*']
  return { patterns, files, isLinked: false, notes }
}
