/** Files that an install reads, and directories that it makes. */
import { type FileTree, within } from '../tree.ts'
import { schemasOf } from './node-lifecycle.ts'
import type { NodeManager } from './node-manager.ts'
import type { Manifest, Workspace } from './node-manifest.ts'
import { inside } from './place.ts'
import { readPlain, short } from './reading.ts'
import { readYaml } from './yaml-file.ts'

/** Settings of package managers, where they lie beside a manifest. */
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
  /** Directories of packages outside of the workspace that are linked into it. */
  readonly linked: readonly string[]
  readonly notes: readonly string[]
}

export function nodeInputs(
  tree: FileTree,
  { root, members }: Workspace,
  manager: NodeManager,
  more: readonly string[],
): NodeInputs {
  const packages = [root, ...members]
  const local = packages.map((manifest) => localDependencies(tree, manifest))
  const directories = packages.map(({ directory }) => directory)
  const inputs = [
    ...packages.map(({ file }) => file),
    ...(manager.lockfile === undefined ? [] : [manager.lockfile]),
    ...directories.flatMap((directory) => SETTINGS.map((name) => within(directory, name))),
    ...localFiles(tree, directories),
    ...local.flatMap(({ files }) => files),
    ...packages.flatMap((one) => (one.dependencies.has('@prisma/client') ? schemasOf(tree, one) : [])),
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

/** The directories are looked at only for the few files that could be meant: there may be very many of both. */
function localFiles(tree: FileTree, directories: readonly string[]): readonly string[] {
  const own = new Set(directories)
  return tree.files.filter((file) => {
    const [, above = '', rest = ''] = SOME_LOCAL_FILE.exec(file) ?? []
    return own.has(above.slice(0, -1)) && LOCAL_FILE.test(rest)
  })
}

/** Settings that stand for a token by a variable; without it some package managers do not even start. */
function neededVariables(tree: FileTree, directory: string): readonly string[] {
  return ['.npmrc', '.yarnrc.yml', '.yarnrc'].flatMap((name) => {
    const file = within(directory, name)
    const found = [...(readPlain(tree, file) ?? '').matchAll(/\$\{([A-Z_][A-Z0-9_]{0,60})\}/g)].map(
      ([, one = '']) => one,
    )
    return found.length === 0
      ? []
      : [`${short(file)} needs the variables ${[...new Set(found)].slice(0, 5).join(', ')}`]
  })
}

/** What is depended on as a file or directory of the project itself. */
function localDependencies(tree: FileTree, { directory, file, dependencies }: Manifest) {
  const files: string[] = []
  const linked: string[] = []
  const notes: string[] = []
  for (const [name, range] of dependencies) {
    const [, path] = /^(?:file|link|portal):(.{1,500})$/.exec(range) ?? []
    if (path === undefined) continue
    const found = inside(directory, path)
    if (found === undefined) notes.push(`${short(file)} takes ${short(name, 60)} from outside of the project`)
    else if (tree.has(found)) files.push(found)
    else if (tree.has(within(found, 'package.json'))) {
      files.push(within(found, 'package.json'))
      linked.push(found)
    } else notes.push(`${short(file)} takes ${short(name, 60)} from ${short(path, 60)}, which is not there`)
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

/** What is committed is part of the project, even if an install could make it. */
export function nodeGenerated(
  tree: FileTree,
  { root, members }: Workspace,
  manager: NodeManager,
  linked: readonly string[],
): readonly string[] {
  const directories = [
    root.directory,
    ...[...members.map(({ directory }) => directory), ...linked].toSorted(),
  ]
  const modules = directories.map((directory) => within(directory, 'node_modules'))
  if (manager.name !== 'yarn-berry' || linkerOf(tree, root.directory) !== 'pnp') return [...new Set(modules)]
  return PLUG_AND_PLAY.map((name) => within(root.directory, name)).filter(
    (path) => !tree.has(path) && tree.below(path).length === 0,
  )
}

function linkerOf(tree: FileTree, directory: string): string {
  const text = readPlain(tree, within(directory, '.yarnrc.yml'))
  if (text === undefined) return 'pnp'
  const linker = readYaml(tree, within(directory, '.yarnrc.yml'))?.data['nodeLinker']
  return typeof linker === 'string' ? linker : 'pnp'
}
