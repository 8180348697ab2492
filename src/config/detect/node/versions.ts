/** All version candidates for Node or Bun. */

import { valid } from 'semver'
import { isObject, valueAt } from '../../../util/untrusted-json.ts'
import type { Candidate, Evidence, Rank } from '../../evidence.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import { evidenceIn, readTextFile, shortQuote, textAt, versionText } from '../project-files/parsed-file.ts'
import { directoryAndParents, versionFileCandidates } from '../project-files/version-files.ts'
import { type PackageJson, saysIn } from './package-json.ts'
import type { NodeManager } from './package-manager.ts'

type Runtime = 'node' | 'bun'

const VERSION_FILES: Readonly<Record<Runtime, readonly string[]>> = {
  node: ['.nvmrc', '.node-version'],
  bun: ['.bun-version'],
}

export function runtimeVersions(
  tree: FileTree,
  runtime: Runtime,
  root: PackageJson,
  members: readonly PackageJson[],
  manager: NodeManager,
): readonly Candidate[] {
  const own = [...enginesOf(root, runtime), ...devEngines(root, runtime)]
  return [
    ...directoryAndParents(root.directory).flatMap((directory) =>
      VERSION_FILES[runtime].flatMap((name) => versionFile(tree, joinPath(directory, name))),
    ),
    ...pinned(tree, root, runtime),
    ...(runtime === 'bun' ? managed(manager) : []),
    ...versionFileCandidates(tree, root.directory, runtime),
    ...own,
    // If the root has no version, those of its members count.
    ...(own.length === 0 ? members.flatMap((member) => enginesOf(member, runtime)).slice(0, 20) : []),
  ]
}

function versionFile(tree: FileTree, file: string): Candidate[] {
  const lines = (readTextFile(tree, file) ?? '').slice(0, 2000).split('\n')
  for (const [index, written] of lines.entries()) {
    const value = versionText(written.replace(/#.*$/, ''))
    if (value !== undefined)
      return [candidate(value, 'version file', { file, line: index + 1, said: shortQuote(written) })]
  }
  return []
}

function candidate(value: string, rank: Rank, evidence: Evidence): Candidate {
  return { value, rank, evidence }
}

function pinned(tree: FileTree, root: PackageJson, runtime: Runtime): Candidate[] {
  if (runtime !== 'node') return []
  const volta = versionText(valueAt(root.data, 'volta', 'node'))
  const settings = joinPath(root.directory, '.npmrc')
  const text = readTextFile(tree, settings) ?? ''
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

function enginesOf(manifest: PackageJson, runtime: Runtime): Candidate[] {
  const range = versionText(valueAt(manifest.data, 'engines', runtime))
  if (range === undefined) return []
  const evidence = saysIn(manifest, ['"engines"', `"${runtime}"`], `"${runtime}": "${range}"`)
  return [candidate(range, 'range', evidence)]
}

function devEngines(root: PackageJson, runtime: Runtime): Candidate[] {
  const wanted = valueAt(root.data, 'devEngines', 'runtime')
  return (Array.isArray(wanted) ? wanted : [wanted]).slice(0, 5).flatMap((one) => {
    const version = isObject(one) && textAt(one, 'name') === runtime ? versionText(one['version']) : undefined
    if (version === undefined) return []
    const said = `"runtime": { "name": "${runtime}", "version": "${version}" }`
    const rank = valid(version) ? 'manifest' : 'range'
    return [candidate(version, rank, saysIn(root, ['"devEngines"', '"runtime"', '"version"'], said))]
  })
}
