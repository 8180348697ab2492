/** Files that an install reads, and directories that it creates. */
import { type FileTree, joinPath } from '../../file-tree.ts'
import { readTextFile, shortQuote } from '../project-files/parsed-file.ts'
import { pathInProject } from '../project-files/paths.ts'
import { readYamlFile } from '../project-files/yaml-file.ts'
import { prismaSchemas } from './install-scripts.ts'
import type { NodeWorkspace, PackageJson } from './package-json.ts'
import type { NodeManager } from './package-manager.ts'

/** Settings files of package managers, beside a manifest. */
const SETTINGS = [
  '.npmrc',
  '.yarnrc',
  '.yarnrc.yml',
  'pnpm-workspace.yaml',
  '.pnpmfile.cjs',
  'pnpmfile.js',
  'bunfig.toml',
  'lerna.json',
]
const SOME_LOCAL_FILE = /^((?:.*?\/)??)((?:\.yarn|patches|\.pnpm-patches)\/.*)$/
const LOCAL_FILE = /^(?:\.yarn\/(?:releases|plugins|patches)\/|patches\/[^/]+\.patch$|\.pnpm-patches\/)/
const MOST_INPUTS = 5000

export interface NodeInputs {
  readonly inputs: readonly string[]
  /** Directories of packages outside the workspace that are linked into it. */
  readonly linked: readonly string[]
  readonly notes: readonly string[]
}

export function nodeInputs(
  tree: FileTree,
  { root, members }: NodeWorkspace,
  manager: NodeManager,
  more: readonly string[],
): NodeInputs {
  const packages = [root, ...members]
  const local = packages.map((manifest) => localDependencies(tree, manifest))
  const directories = packages.map(({ directory }) => directory)
  const inputs = [
    ...packages.map(({ file }) => file),
    ...(manager.lockfile === undefined ? [] : [manager.lockfile]),
    ...directories.flatMap((directory) => SETTINGS.map((name) => joinPath(directory, name))),
    ...localFiles(tree, directories),
    ...local.flatMap(({ files }) => files),
    ...packages.flatMap((one) => (one.dependencies.has('@prisma/client') ? prismaSchemas(tree, one) : [])),
    ...more,
  ]
  return {
    inputs: [...new Set(inputs)]
      .filter((file) => tree.has(file))
      .slice(0, MOST_INPUTS)
      .toSorted(),
    linked: local.flatMap(({ linked }) => linked),
    notes: [...local.flatMap(({ notes }) => notes).slice(0, 10), ...neededVariables(tree, root.directory)],
  }
}

/** Checks only the few possible file names per directory: there may be very many files and directories. */
function localFiles(tree: FileTree, directories: readonly string[]): readonly string[] {
  const own = new Set(directories)
  return tree.files.filter((file) => {
    const [, above = '', rest = ''] = SOME_LOCAL_FILE.exec(file) ?? []
    return own.has(above.slice(0, -1)) && LOCAL_FILE.test(rest)
  })
}

/** Variables for tokens in settings files; without them some package managers do not start. */
function neededVariables(tree: FileTree, directory: string): readonly string[] {
  return ['.npmrc', '.yarnrc.yml', '.yarnrc'].flatMap((name) => {
    const file = joinPath(directory, name)
    const found = [...(readTextFile(tree, file) ?? '').matchAll(/\$\{([A-Z_][A-Z0-9_]{0,60})\}/g)].map(
      ([, one = '']) => one,
    )
    return found.length === 0
      ? []
      : [`${shortQuote(file)} needs the variables ${[...new Set(found)].slice(0, 5).join(', ')}`]
  })
}

/** Dependencies on files or directories of the project itself. */
function localDependencies(tree: FileTree, { directory, file, dependencies }: PackageJson) {
  const files: string[] = []
  const linked: string[] = []
  const notes: string[] = []
  for (const [name, range] of dependencies) {
    const [, path] = /^(?:file|link|portal):(.{1,500})$/.exec(range) ?? []
    if (path === undefined) continue
    const found = pathInProject(directory, path)
    if (found === undefined)
      notes.push(`${shortQuote(file)} takes ${shortQuote(name, 60)} from outside the project`)
    else if (tree.has(found)) files.push(found)
    else if (tree.has(joinPath(found, 'package.json'))) {
      files.push(joinPath(found, 'package.json'))
      linked.push(found)
    } else
      notes.push(
        `${shortQuote(file)} takes ${shortQuote(name, 60)} from ${shortQuote(path, 60)}, which does not exist`,
      )
  }
  return { files, linked, notes }
}

const PLUG_AND_PLAY = [
  '.pnp.cjs',
  '.pnp.loader.mjs',
  '.yarn/cache',
  '.yarn/unplugged',
  '.yarn/install-state.gz',
  '.yarn/build-state.yml',
]

/** Committed files are part of the project, even if an install could create them. */
export function nodeGenerated(
  tree: FileTree,
  { root, members }: NodeWorkspace,
  manager: NodeManager,
  linked: readonly string[],
): readonly string[] {
  const directories = [
    root.directory,
    ...[...members.map(({ directory }) => directory), ...linked].toSorted(),
  ]
  const modules = directories.map((directory) => joinPath(directory, 'node_modules'))
  if (manager.name !== 'yarn-berry' || linkerOf(tree, root.directory) !== 'pnp') return [...new Set(modules)]
  return PLUG_AND_PLAY.map((name) => joinPath(root.directory, name)).filter(
    (path) => !tree.has(path) && tree.below(path).length === 0,
  )
}

function linkerOf(tree: FileTree, directory: string): string {
  const text = readTextFile(tree, joinPath(directory, '.yarnrc.yml'))
  if (text === undefined) return 'pnp'
  const linker = readYamlFile(tree, joinPath(directory, '.yarnrc.yml'))?.data['nodeLinker']
  return typeof linker === 'string' ? linker : 'pnp'
}
