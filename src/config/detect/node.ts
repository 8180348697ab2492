/** Node and Bun: packages of npm's kind, and workspaces of them. */
import type { Evidence } from '../evidence.ts'
import { directoryOf, type FileTree, nameOf } from '../tree.ts'
import { isAside, worthwhile } from './aside.ts'
import { distinctPackages, packagesOf } from './debian.ts'
import type { Detector, Finding, FoundPackage, FoundTool } from './finding.ts'
import { nodeCommands } from './node-commands.ts'
import { nodeGenerated, nodeInputs } from './node-inputs.ts'
import { type NodeManager, nodeManager } from './node-manager.ts'
import {
  dependencyEvidence,
  isProject,
  type Manifest,
  nodeManifests,
  nodeWorkspaces,
  type Workspace,
} from './node-manifest.ts'
import { NODE_COMPILER, NODE_DOWNLOADS, NODE_NATIVE } from './node-native.ts'
import { nodePorts } from './node-ports.ts'
import { binStubs, nodeSetup } from './node-setup.ts'
import { runtimeVersions } from './node-versions.ts'
import { MOST_FINDINGS } from './place.ts'
import { malformed, readPlain, short } from './reading.ts'

export const detectNode: Detector = (tree) => {
  const workspaces = nodeWorkspaces(tree, nodeManifests(tree)).filter(
    ({ root, members }) => root.directory === '' || members.length > 0 || isProject(root),
  )
  const counted = new Set(worthwhile(workspaces.map(({ root }) => root.file)))
  return workspaces
    .filter(({ root }) => counted.has(root.file))
    .slice(0, MOST_FINDINGS)
    .map((workspace) => findingOf(tree, workspace))
}

function findingOf(tree: FileTree, workspace: Workspace): Finding {
  const { root, members } = workspace
  const packages = [root, ...members]
  const manager = nodeManager(tree, root)
  const language = manager.name === 'bun' ? 'bun' : 'node'
  const setup = nodeSetup(tree, workspace, manager)
  const { inputs, linked, notes } = nodeInputs(tree, workspace, manager, setup.inputs)
  const downloads = downloadsOf(packages)
  const stubs = binStubs(tree, members, inputs)
  const allNotes = [
    ...packages.flatMap(({ file, problem }) => (problem === undefined ? [] : [malformed(file, problem)])),
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

function evidenceOf(root: Manifest, members: readonly Manifest[]): Evidence {
  const said = members.length > 0 ? `a workspace with ${members.length} in it` : 'package.json'
  return { file: root.file, said }
}

function toolsOf(tree: FileTree, packages: readonly Manifest[], manager: NodeManager): readonly FoundTool[] {
  const [root] = packages
  if (manager.name !== 'bun') return manager.tool ? [manager.tool] : []
  for (const manifest of packages)
    for (const [name, script] of manifest.scripts)
      if (/(?:^|[\s;&|])node\s/.test(script.slice(0, 2000)) && root) {
        const [wanted] = runtimeVersions(tree, 'node', root, [], manager)
        const evidence = { file: manifest.file, said: short(`"${name}": ${JSON.stringify(script)}`) }
        return [{ name: 'node', ...(wanted && { version: wanted.value }), evidence }]
      }
  return []
}

/** What comes with other packages is seen in npm's lockfile, which says each place. */
function nativePackages(
  tree: FileTree,
  packages: readonly Manifest[],
  { name, lockfile }: NodeManager,
): readonly FoundPackage[] {
  const text = name === 'npm' && lockfile !== undefined ? (readPlain(tree, lockfile) ?? '') : ''
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
        packages.some(({ directory }) => directory === directoryOf(file)) && !isAside(directoryOf(file)),
    )
  if (binding !== undefined)
    found.push(...packagesOf(NODE_COMPILER, { file: binding, said: nameOf(binding) }))
  return distinctPackages(found)
}

function downloadsOf(packages: readonly Manifest[]) {
  const variables: Record<string, string> = {}
  const notes: string[] = []
  for (const [dependency, download] of NODE_DOWNLOADS) {
    if (!packages.some(({ dependencies }) => dependencies.has(dependency))) continue
    Object.assign(variables, download.variables)
    notes.push(
      `${dependency} would fetch ${download.what} from a host of its own while it is installed, and is told not to`,
    )
  }
  return { variables, notes }
}
