/** The command that installs the dependencies of a package or workspace, including those for development. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { isObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import type { FoundCommand } from '../finding.ts'
import { readJsonFile, readTextFile, shortQuote } from '../project-files/parsed-file.ts'
import { directoryAndParents } from '../project-files/version-files.ts'
import { workflows } from '../project-files/workflows.ts'
import { type LifecycleScript, lifecycleScripts } from './install-scripts.ts'
import type { NodeWorkspace, PackageJson } from './package-json.ts'
import { approvedBuilds, type ManagerName, type NodeManager } from './package-manager.ts'
import { NODE_BUILT } from './system-packages.ts'

export interface NodeSetup {
  /** Undefined if there is nothing to install. */
  readonly command: FoundCommand | undefined
  /** Files that the project's own scripts need. */
  readonly inputs: readonly string[]
  readonly notes: readonly string[]
}

const MOST_REBUILT = 60
/** Names of packages as registries take them; anything else is not put into a command. */
const PACKAGE_NAME = /^(?:@[a-z0-9][a-z0-9~._-]{0,100}\/)?[a-z0-9][a-z0-9~._-]{0,150}$/i
/** Reads npm's record of what it installed, for lockfiles that are too long or too old. */
const LIST_BUILT =
  'Object.entries(require("./node_modules/.package-lock.json").packages).flatMap(([at, { hasInstallScript, link }]) => hasInstallScript && !link && at.includes("node_modules/") ? at.split("node_modules/").pop() : []).join("\\n")'

export function nodeSetup(tree: FileTree, workspace: NodeWorkspace, manager: NodeManager): NodeSetup {
  const { root, members } = workspace
  const scripts = lifecycleScripts(tree, [root, ...members], manager.name === 'yarn-berry')
  if (manager.lockfile === undefined && members.length === 0 && root.dependencies.size === 0)
    return { command: undefined, inputs: [], notes: [] }
  const blocked = scripts.filter(({ files }) => files === undefined)
  const evidence = manager.lockfile
    ? { file: manager.lockfile, said: shortQuote(manager.lockfile) }
    : manager.evidence
  const runs = [
    install(tree, root, manager, blocked.length > 0),
    ...(blocked.length > 0 ? rebuild(tree, workspace, manager) : []),
    ...(blocked.length > 0 ? ownScripts(scripts, root, manager.name) : []),
    ...bootstrap(workspace),
  ]
  return {
    command: { run: runs.join(' && '), evidence },
    inputs: scripts.flatMap(({ files }) => files ?? []),
    notes: blocked.length > 0 ? [skippedNote(blocked)] : [],
  }
}

function skippedNote(blocked: readonly LifecycleScript[]): string {
  const names = blocked.map(({ manifest, name }) => `${name} of ${shortQuote(manifest.file, 60)}`)
  const rest = names.length > 5 ? ` and ${names.length - 5} more` : ''
  return `dependencies are installed before the sources are copied, so these scripts are skipped: ${names.slice(0, 5).join(', ')}${rest}`
}

/** Installs exactly the lockfile. Without one, none is written, because that would change the project. */
function install(
  tree: FileTree,
  { directory }: PackageJson,
  { name, lockfile }: NodeManager,
  isBare: boolean,
): string {
  const isLocked = lockfile !== undefined
  const bare = isBare ? ' --ignore-scripts' : ''
  switch (name) {
    case 'npm':
      return `${isLocked ? 'npm ci' : 'npm install --no-audit --no-fund --no-package-lock'}${peerFlag(tree)}${bare}`
    case 'pnpm':
      return `pnpm install${isInWorkspace(tree, directory) ? ' --ignore-workspace' : ''}${isLocked ? ' --frozen-lockfile' : ' --no-lockfile'}${bare}`
    case 'yarn':
      return `yarn install${isLocked ? ' --frozen-lockfile' : ' --no-lockfile'}${bare}`
    case 'yarn-berry':
      return `yarn install${isLocked ? ' --immutable' : ' --no-immutable'}${isBare ? ' --mode=skip-build' : ''}`
    case 'bun':
      return `bun install${isLocked ? ' --frozen-lockfile' : ' --no-save'}${bare}`
  }
}

/** A package inside another workspace that is not a member would otherwise count as one. */
function isInWorkspace(tree: FileTree, directory: string): boolean {
  return directoryAndParents(directory)
    .slice(1)
    .some((above) => tree.has(joinPath(above, 'pnpm-workspace.yaml')))
}

/** Used if the project's own workflow needs it. */
function peerFlag(tree: FileTree): string {
  for (const { jobs } of workflows(tree))
    for (const { run } of jobs.flatMap(({ steps }) => steps)) {
      const [, flag] =
        /\bnpm (?:ci|i|install)\b[^\n&|;]{0,200}?(--legacy-peer-deps|--force)\b/.exec(run) ?? []
      if (flag !== undefined) return ` ${flag}`
    }
  return ''
}

/**
 * Runs the install scripts of dependencies, which were skipped together with the project's. They are named
 * one by one, because without names the project's scripts run too.
 */
function rebuild(tree: FileTree, { root, members }: NodeWorkspace, manager: NodeManager): string[] {
  if (manager.name === 'bun') return []
  const names = builtNames(tree, root, members, manager)
  if (names === undefined)
    return [`built=$(node -p '${LIST_BUILT}') && printf '%s\\n' "$built" | xargs -r npm rebuild`]
  if (names.length === 0) return []
  const words = names.slice(0, MOST_REBUILT).map(shellWord).join(' ')
  if (manager.name === 'pnpm') return [`pnpm ${members.length > 0 ? '-r ' : ''}rebuild ${words}`]
  return [`${manager.name === 'yarn-berry' ? 'yarn' : 'npm'} rebuild ${words}`]
}

function builtNames(
  tree: FileTree,
  root: PackageJson,
  members: readonly PackageJson[],
  manager: NodeManager,
): readonly string[] | undefined {
  if (manager.name === 'npm') return npmBuilt(tree, manager.lockfile)
  const approved = manager.name === 'pnpm' ? approvedBuilds(tree, root) : undefined
  if (approved) return approved.filter((name) => PACKAGE_NAME.test(name)).toSorted()
  const text = manager.lockfile === undefined ? undefined : readTextFile(tree, manager.lockfile)
  const named = new Set([root, ...members].flatMap(({ dependencies }) => [...dependencies.keys()]))
  return NODE_BUILT.filter((name) => named.has(name) || text?.includes(`${name}@`)).toSorted()
}

/** Undefined if the lockfile does not tell. */
function npmBuilt(tree: FileTree, lockfile: string | undefined): readonly string[] | undefined {
  const read = lockfile === undefined ? undefined : readJsonFile(tree, lockfile)
  if (!read || !isObject(valueAt(read.data, 'packages'))) return undefined
  const names = Object.entries(objectAt(read.data, 'packages')).flatMap(([place, entry]) => {
    const name = place.split('node_modules/').at(-1) ?? ''
    const isBuilt = place.includes('node_modules/') && valueAt(entry, 'hasInstallScript') === true
    // Optional packages for other machines are not installed and cannot be rebuilt.
    return isBuilt && valueAt(entry, 'os') === undefined && PACKAGE_NAME.test(name) ? [name] : []
  })
  return [...new Set(names)].toSorted()
}

/** Runs the root's own scripts that can run without sources. */
function ownScripts(scripts: readonly LifecycleScript[], root: PackageJson, name: ManagerName): string[] {
  const program = name === 'yarn-berry' ? 'yarn' : name
  return scripts
    .filter(({ manifest, files }) => manifest === root && files !== undefined)
    .filter(({ manifest, name: script }) =>
      /patch-package|prisma|node |\.c?js\b/.test(manifest.scripts.get(script) ?? ''),
    )
    .map(({ name: script }) => `${program} run ${script}`)
}

/** Before package managers had workspaces, Lerna linked the packages; from version 7 on it does not. */
function bootstrap({ root, members, isLinked }: NodeWorkspace): string[] {
  const version = root.dependencies.get('lerna')
  const major = Number(/\d{1,3}/.exec(version ?? '')?.[0] ?? Number.NaN)
  return members.length > 0 && !isLinked && major < 7 ? ['npx lerna bootstrap'] : []
}

/**
 * Stub files for programs of members: package managers link only programs that exist. Only their first line
 * matters.
 */
export function binStubs(
  tree: FileTree,
  members: readonly PackageJson[],
  inputs: readonly string[],
): Readonly<Record<string, string>> {
  const stubs = new Map<string, string>()
  for (const { directory, data } of members) {
    const bin = data['bin']
    const paths = typeof bin === 'string' ? [bin] : Object.values(isObject(bin) ? bin : {})
    for (const path of paths.slice(0, 50)) {
      const file = typeof path === 'string' ? joinPath(directory, path.replace(/^\.\//, '')) : ''
      const text = tree.has(file) ? readTextFile(tree, file) : undefined
      if (text !== undefined && !inputs.includes(file))
        stubs.set(file, `${/^#![^\n]{1,200}/.exec(text)?.[0] ?? '#!/usr/bin/env node'}\n`)
    }
  }
  return Object.fromEntries([...stubs].toSorted(([a], [b]) => (a < b ? -1 : 1)))
}
