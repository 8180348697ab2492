/** Everything that says which version of Node or Bun a package wants. */
import { valid } from 'semver'
import type { Candidate, Evidence, Rank } from '../evidence.ts'
import { type FileTree, within } from '../tree.ts'
import type { NodeManager } from './node-manager.ts'
import { type Manifest, saysIn } from './node-manifest.ts'
import { at, evidenceIn, isTable, readPlain, short, textAt, versionText } from './reading.ts'
import { sharedVersions, withParents } from './shared-versions.ts'

type Runtime = 'node' | 'bun'

const VERSION_FILES: Readonly<Record<Runtime, readonly string[]>> = {
  node: ['.nvmrc', '.node-version'],
  bun: ['.bun-version'],
}

export function runtimeVersions(
  tree: FileTree,
  runtime: Runtime,
  root: Manifest,
  members: readonly Manifest[],
  manager: NodeManager,
): readonly Candidate[] {
  const own = [...enginesOf(root, runtime), ...devEngines(root, runtime)]
  return [
    ...withParents(root.directory).flatMap((directory) =>
      VERSION_FILES[runtime].flatMap((name) => versionFile(tree, within(directory, name))),
    ),
    ...pinned(tree, root, runtime),
    ...(runtime === 'bun' ? managed(manager) : []),
    ...sharedVersions(tree, root.directory, runtime),
    ...own,
    // A root that says nothing leaves it to its members.
    ...(own.length === 0 ? members.flatMap((member) => enginesOf(member, runtime)).slice(0, 20) : []),
  ]
}

function versionFile(tree: FileTree, file: string): Candidate[] {
  const lines = (readPlain(tree, file) ?? '').slice(0, 2000).split('\n')
  for (const [index, written] of lines.entries()) {
    const value = versionText(written.replace(/#.*$/, ''))
    if (value !== undefined)
      return [candidate(value, 'version file', { file, line: index + 1, said: short(written) })]
  }
  return []
}

function candidate(value: string, rank: Rank, evidence: Evidence): Candidate {
  return { value, rank, evidence }
}

function pinned(tree: FileTree, root: Manifest, runtime: Runtime): Candidate[] {
  if (runtime !== 'node') return []
  const volta = versionText(at(root.data, 'volta', 'node'))
  const settings = within(root.directory, '.npmrc')
  const text = readPlain(tree, settings) ?? ''
  const [line = '', used] = /^use-node-version\s{0,5}=\s{0,5}([\w.-]{1,40})/m.exec(text) ?? []
  return [
    ...(volta === undefined
      ? []
      : [candidate(volta, 'version file', saysIn(root, ['"volta"', '"node"'], `"node": "${volta}"`))]),
    ...(used === undefined
      ? []
      : [candidate(used, 'version file', evidenceIn(settings, text, [line], line))]),
  ]
}

function managed({ name, tool }: NodeManager): Candidate[] {
  if (name !== 'bun' || tool?.version === undefined) return []
  return [candidate(tool.version, valid(tool.version) ? 'manifest' : 'range', tool.evidence)]
}

function enginesOf(manifest: Manifest, runtime: Runtime): Candidate[] {
  const range = versionText(at(manifest.data, 'engines', runtime))
  if (range === undefined) return []
  const evidence = saysIn(manifest, ['"engines"', `"${runtime}"`], `"${runtime}": "${range}"`)
  return [candidate(range, 'range', evidence)]
}

function devEngines(root: Manifest, runtime: Runtime): Candidate[] {
  const wanted = at(root.data, 'devEngines', 'runtime')
  return (Array.isArray(wanted) ? wanted : [wanted]).slice(0, 5).flatMap((one) => {
    const version = isTable(one) && textAt(one, 'name') === runtime ? versionText(one['version']) : undefined
    if (version === undefined) return []
    const said = `"runtime": { "name": "${runtime}", "version": "${version}" }`
    const rank = valid(version) ? 'manifest' : 'range'
    return [candidate(version, rank, saysIn(root, ['"devEngines"', '"runtime"', '"version"'], said))]
  })
}
