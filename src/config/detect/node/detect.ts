/** Node and Bun: npm packages and workspaces. */
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, nameOf } from '../../file-tree.ts'
import type { Detector, Finding, FoundPackage, FoundTool } from '../finding.ts'
import { distinctPackages, packagesOf } from '../project-files/debian-packages.ts'
import { isIgnored, ownFiles } from '../project-files/ignored-directories.ts'
import { malformedNote, readTextFile, shortQuote } from '../project-files/parsed-file.ts'
import { MOST_FINDINGS } from '../project-files/paths.ts'
import { nodeCommands } from './commands.ts'
import { nodeGenerated, nodeInputs } from './inputs.ts'
import {
  dependencyEvidence,
  isProject,
  type NodeWorkspace,
  nodeManifests,
  nodeWorkspaces,
  type PackageJson,
} from './package-json.ts'
import { type NodeManager, nodeManager } from './package-manager.ts'
import { nodePorts } from './ports.ts'
import { binStubs, nodeSetup } from './setup.ts'
import { NODE_COMPILER, NODE_DOWNLOADS, NODE_NATIVE } from './system-packages.ts'
import { runtimeVersions } from './versions.ts'

export const detectNode: Detector = (tree) => {
  const workspaces = nodeWorkspaces(tree, nodeManifests(tree)).filter(
    ({ root, members }) => root.directory === '' || members.length > 0 || isProject(root),
  )
  const counted = new Set(ownFiles(workspaces.map(({ root }) => root.file)))
  return workspaces
    .filter(({ root }) => counted.has(root.file))
    .slice(0, MOST_FINDINGS)
    .map((workspace) => findingOf(tree, workspace))
}

function findingOf(tree: FileTree, workspace: NodeWorkspace): Finding {
  const { root, members } = workspace
  const packages = [root, ...members]
  const manager = nodeManager(tree, root)
  const language = manager.name === 'bun' ? 'bun' : 'node'
  const setup = nodeSetup(tree, workspace, manager)
  const { inputs, linked, notes } = nodeInputs(tree, workspace, manager, setup.inputs)
  const downloads = downloadsOf(packages)
  const stubs = binStubs(tree, members, inputs)
  const allNotes = [
    ...packages.flatMap(({ file, problem }) => (problem === undefined ? [] : [malformedNote(file, problem)])),
    ...workspace.notes,
    ...setup.notes,
    ...notes,
    ...downloads.notes,
  ]
  const ports = nodePorts(tree, packages)
  return {
    language,
    directory: root.directory,
    evidence: evidenceOf(root, members),
    versions: runtimeVersions(tree, language, root, members, manager),
    manager: { name: manager.name, evidence: manager.evidence, beat: manager.beat },
    tools: toolsOf(tree, packages, manager),
    lockfile: manager.lockfile,
    inputs,
    ...(Object.keys(stubs).length > 0 && { stubs }),
    commands: {
      ...(setup.command && { setup: setup.command }),
      ...nodeCommands(tree, workspace, manager.name),
    },
    packages: nativePackages(tree, packages, manager),
    generated: nodeGenerated(tree, workspace, manager, linked),
    presets: ['npm'],
    ...(Object.keys(downloads.variables).length > 0 && { variables: downloads.variables }),
    ...(ports.length > 0 && { ports }),
    ...(members.length > 0 && { members: members.map(({ name }) => name) }),
    ...(allNotes.length > 0 && { notes: allNotes }),
  }
}

function evidenceOf(root: PackageJson, members: readonly PackageJson[]): Evidence {
  const said = members.length > 0 ? `a workspace with ${members.length} in it` : 'package.json'
  return { file: root.file, said }
}

function toolsOf(
  tree: FileTree,
  packages: readonly PackageJson[],
  manager: NodeManager,
): readonly FoundTool[] {
  const [root] = packages
  if (manager.name !== 'bun') return manager.tool ? [manager.tool] : []
  for (const manifest of packages)
    for (const [name, script] of manifest.scripts)
      if (/(?:^|[\s;&|])node\s/.test(script.slice(0, 2000)) && root) {
        const [wanted] = runtimeVersions(tree, 'node', root, [], manager)
        const evidence = { file: manifest.file, said: shortQuote(`"${name}": ${JSON.stringify(script)}`) }
        return [{ name: 'node', ...(wanted && { version: wanted.value }), evidence }]
      }
  return []
}

/** Indirect dependencies are found in npm's lockfile. */
function nativePackages(
  tree: FileTree,
  packages: readonly PackageJson[],
  { name, lockfile }: NodeManager,
): readonly FoundPackage[] {
  const text = name === 'npm' && lockfile !== undefined ? (readTextFile(tree, lockfile) ?? '') : ''
  const found = [...NODE_NATIVE].flatMap(([dependency, needs]) => {
    const manifest = packages.find(({ dependencies }) => dependencies.has(dependency))
    if (manifest) return packagesOf(needs, dependencyEvidence(manifest, dependency))
    const isInside = dependency !== 'node-gyp' && text.includes(`"node_modules/${dependency}":`)
    return isInside && lockfile !== undefined
      ? packagesOf(needs, { file: lockfile, said: `node_modules/${dependency}` })
      : []
  })
  const binding = tree
    .named('binding.gyp')
    .find(
      (file) =>
        packages.some(({ directory }) => directory === directoryOf(file)) && !isIgnored(directoryOf(file)),
    )
  if (binding !== undefined)
    found.push(...packagesOf(NODE_COMPILER, { file: binding, said: nameOf(binding) }))
  return distinctPackages(found)
}

function downloadsOf(packages: readonly PackageJson[]) {
  const variables: Record<string, string> = {}
  const notes: string[] = []
  for (const [dependency, download] of NODE_DOWNLOADS) {
    if (!packages.some(({ dependencies }) => dependencies.has(dependency))) continue
    Object.assign(variables, download.variables)
    notes.push(
      `${dependency} would fetch ${download.what} from another host during installation; this download is switched off`,
    )
  }
  return { variables, notes }
}
