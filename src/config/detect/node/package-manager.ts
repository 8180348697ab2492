/** Which package manager a package is installed with, and which version of it. */

import { coerce, valid, validRange } from 'semver'
import { isObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import type { FoundTool } from '../finding.ts'
import { evidenceIn, readTextFile, shortQuote, textAt, versionText } from '../project-files/parsed-file.ts'
import { workflows } from '../project-files/workflows.ts'
import { readYamlFile } from '../project-files/yaml-file.ts'
import { type PackageJson, saysIn } from './package-json.ts'

export type ManagerName = 'npm' | 'pnpm' | 'yarn' | 'yarn-berry' | 'bun'

export interface NodeManager {
  readonly name: ManagerName
  readonly evidence: Evidence
  readonly beat: readonly { readonly name: string; readonly evidence: Evidence; readonly why: string }[]
  /** The tool to install besides Node; undefined for npm, which comes with it. */
  readonly tool?: FoundTool | undefined
  readonly lockfile?: string | undefined
}

interface Vote {
  readonly name: ManagerName
  readonly version?: string | undefined
  readonly evidence: Evidence
  readonly by: string
}

/** Lockfiles in order of precedence, if there are several and no manifest decides. */
const LOCKFILES: readonly (readonly [file: string, name: ManagerName])[] = [
  ['pnpm-lock.yaml', 'pnpm'],
  ['bun.lock', 'bun'],
  ['bun.lockb', 'bun'],
  ['yarn.lock', 'yarn'],
  ['package-lock.json', 'npm'],
  ['npm-shrinkwrap.json', 'npm'],
]

export function nodeManager(tree: FileTree, root: PackageJson): NodeManager {
  const votes = [...said(tree, root), ...lockfiles(tree, root), ...engines(tree, root)]
  const chosen: Vote = votes[0] ?? {
    name: 'npm',
    evidence: { file: root.file, said: 'nothing names a package manager' },
    by: 'default',
  }
  const family = (name: ManagerName): string => name.replace(/-berry$/, '')
  const beat = votes
    .filter(({ name, by }) => family(name) !== family(chosen.name) && by !== 'engines')
    .map(({ name, evidence, by }) => ({ name, evidence, why: whyBeaten(chosen, by) }))
  const locked = LOCKFILES.filter(([, name]) => family(name) === family(chosen.name))
    .map(([file]) => joinPath(root.directory, file))
    .find((file) => tree.has(file))
  return {
    name: chosen.name,
    evidence: chosen.evidence,
    beat,
    tool: toolOf(tree, root, chosen, votes, locked),
    ...(locked !== undefined && { lockfile: locked }),
  }
}

function whyBeaten(chosen: Vote, by: string): string {
  if (chosen.by !== 'lockfile') return `${chosen.evidence.file} names ${chosen.name}`
  return by === 'lockfile'
    ? `there are several lockfiles and that of ${chosen.name} goes first; choose one with "packageManager" in package.json`
    : `there is a lockfile of ${chosen.name}`
}

function said(tree: FileTree, root: PackageJson): Vote[] {
  const votes: Vote[] = []
  const field = textAt(root.data, 'packageManager')
  const [, name = '', version] = /^([a-z]{1,10})(?:@([^+\s]{1,60}))?/.exec(field ?? '') ?? []
  const managed = managerOf(tree, root, name, version)
  if (managed)
    votes.push({
      name: managed,
      version: valid(version) ?? undefined,
      evidence: saysIn(
        root,
        ['"packageManager"'],
        `"packageManager": "${name}${version ? `@${version}` : ''}"`,
      ),
      by: 'packageManager',
    })
  const wanted = valueAt(root.data, 'devEngines', 'packageManager')
  for (const one of (Array.isArray(wanted) ? wanted : [wanted]).slice(0, 5)) {
    const range = versionText(valueAt(one, 'version'))
    const named = isObject(one) ? managerOf(tree, root, textAt(one, 'name') ?? '', range) : undefined
    if (named)
      votes.push({
        name: named,
        version: range,
        evidence: saysIn(root, ['"devEngines"', '"packageManager"'], `"devEngines": ${JSON.stringify(one)}`),
        by: 'devEngines',
      })
  }
  return votes
}

function managerOf(
  tree: FileTree,
  root: PackageJson,
  name: string,
  version: string | undefined,
): ManagerName | undefined {
  if (name === 'npm' || name === 'pnpm' || name === 'bun') return name
  if (name !== 'yarn') return undefined
  const major = coerce(version)?.major
  if (major !== undefined) return major >= 2 ? 'yarn-berry' : 'yarn'
  return yarnKind(tree, root.directory)
}

/** Yarn 2 and later are another program with another lockfile. */
function yarnKind(tree: FileTree, directory: string): 'yarn' | 'yarn-berry' {
  if (tree.has(joinPath(directory, '.yarnrc.yml'))) return 'yarn-berry'
  const text = readTextFile(tree, joinPath(directory, 'yarn.lock')) ?? ''
  return /^__metadata:/m.test(text) ? 'yarn-berry' : 'yarn'
}

function lockfiles(tree: FileTree, root: PackageJson): Vote[] {
  const seen = new Set<ManagerName>()
  return LOCKFILES.flatMap(([file, written]) => {
    const path = joinPath(root.directory, file)
    if (!tree.has(path) || seen.has(written)) return []
    seen.add(written)
    const name = written === 'yarn' ? yarnKind(tree, root.directory) : written
    return [{ name, evidence: { file: path, said: file }, by: 'lockfile' }]
  })
}

function engines(tree: FileTree, root: PackageJson): Vote[] {
  return (['pnpm', 'yarn', 'bun'] as const).flatMap((name) => {
    const range = versionText(valueAt(root.data, 'engines', name))
    const managed = range === undefined ? undefined : managerOf(tree, root, name, lowest(range))
    if (!managed) return []
    const evidence = saysIn(root, ['"engines"', `"${name}"`], `"${name}": "${range}"`)
    return [{ name: managed, version: range, evidence, by: 'engines' }]
  })
}

/** `>=1.22` does not tell Yarn 1 from 2; a lockfile does. */
function lowest(range: string): string | undefined {
  return range.startsWith('>=1') ? undefined : range
}

function toolOf(
  tree: FileTree,
  root: PackageJson,
  chosen: Vote,
  votes: readonly Vote[],
  lockfile: string | undefined,
): FoundTool | undefined {
  if (chosen.name === 'npm') return undefined
  const name = chosen.name === 'yarn-berry' ? 'yarn' : chosen.name
  const pinned = votes.find((vote) => vote.name === chosen.name && vote.version !== undefined)
  if (pinned && (pinned.by !== 'engines' || lockfile === undefined))
    return { name, version: usable(pinned.version), evidence: pinned.evidence }
  const volta = valid(textAt(root.data, 'volta', name) ?? '')
  if (volta)
    return { name, version: volta, evidence: saysIn(root, ['"volta"', `"${name}"`], `"${name}": "${volta}"`) }
  if (chosen.name === 'pnpm') return pnpmTool(tree, root, chosen, lockfile)
  if (chosen.name === 'yarn') return { name, version: '1', evidence: chosen.evidence }
  if (chosen.name === 'yarn-berry') return berryTool(tree, root, chosen)
  return { name, evidence: chosen.evidence }
}

function usable(version: string | undefined): string | undefined {
  return version !== undefined && validRange(version) !== null ? version : undefined
}

/**
 * The pnpm version that writes this lockfile format, and so accepts it unchanged. The oldest such versions do
 * not run on today's Node.
 */
function pnpmTool(tree: FileTree, root: PackageJson, chosen: Vote, lockfile: string | undefined): FoundTool {
  const text = lockfile === undefined ? undefined : readTextFile(tree, lockfile)
  const [line = '', format = ''] = /^lockfileVersion:\s{0,5}['"]?(\d{1,3}\.\d{1,3})/m.exec(text ?? '') ?? []
  const evidence = lockfile && text ? evidenceIn(lockfile, text, [line], line) : chosen.evidence
  if (format.startsWith('5.')) return { name: 'pnpm', version: '7', evidence }
  if (format.startsWith('6.')) return { name: 'pnpm', version: '8', evidence }
  const inUse = usedInWorkflows(tree)
  if (inUse) return inUse
  // From pnpm 10 on, install scripts of dependencies run only if the project lists them; from 11 on it is an
  // error not to list them.
  const approved = approvedBuilds(tree, root)
  if (format === '9.0') return { name: 'pnpm', version: approved ? '10' : '9', evidence }
  return { name: 'pnpm', version: '10', evidence }
}

function usedInWorkflows(tree: FileTree): FoundTool | undefined {
  for (const { file, jobs } of workflows(tree)) {
    for (const step of jobs.flatMap(({ steps }) => steps)) {
      if (step.action !== 'pnpm/action-setup') continue
      const version = usable(step.values('version')[0])
      if (version !== undefined && /^\d/.test(version))
        return {
          name: 'pnpm',
          version,
          evidence: { file, line: step.line('with', 'version'), said: shortQuote(`version: ${version}`) },
        }
    }
  }
  return undefined
}

/** Dependencies whose install scripts the project allows, if it lists them. */
export function approvedBuilds(tree: FileTree, root: PackageJson): readonly string[] | undefined {
  const settings = readYamlFile(tree, joinPath(root.directory, 'pnpm-workspace.yaml'))?.data
  const lists = [
    valueAt(settings, 'onlyBuiltDependencies'),
    valueAt(root.data, 'pnpm', 'onlyBuiltDependencies'),
  ].filter((one) => Array.isArray(one))
  const allowed = Object.entries(objectAt(settings, 'allowBuilds')).flatMap(([name, is]) =>
    is === 'true' ? [name] : [],
  )
  if (lists.length === 0 && valueAt(settings, 'allowBuilds') === undefined) return undefined
  return [...lists.flat(), ...allowed].filter((one) => typeof one === 'string').slice(0, 200)
}

/**
 * Yarn accepts a lockfile unchanged only if it would write the same. Found by letting each version write one.
 */
const BERRY_BY_FORMAT: ReadonlyMap<string, string> = new Map([
  ['4', '~3.0.0'],
  ['5', '~3.1.0'],
  ['6', '>=3.2.0 <4'],
  ['7', '>=4.0.0 <4.14.0'],
  ['8', '>=4.0.0 <4.14.0'],
  ['9', '~4.14.0'],
])

function berryTool(tree: FileTree, root: PackageJson, chosen: Vote): FoundTool {
  const settings = joinPath(root.directory, '.yarnrc.yml')
  const path = textAt(readYamlFile(tree, settings)?.data, 'yarnPath')
  const version = /yarn-(\d{1,3}\.\d{1,5}\.\d{1,5})\.c?js$/.exec(path ?? '')?.[1]
  if (version !== undefined)
    return {
      name: 'yarn',
      version,
      evidence: evidenceIn(settings, readTextFile(tree, settings) ?? '', ['yarnPath'], `yarnPath: ${path}`),
    }
  const file = joinPath(root.directory, 'yarn.lock')
  const text = readTextFile(tree, file) ?? ''
  const format = /^__metadata:\n {2}version: (\d{1,3})$/m.exec(text)?.[1]
  if (format === undefined) return { name: 'yarn', version: '4', evidence: chosen.evidence }
  const evidence = evidenceIn(file, text, ['__metadata:', 'version:'], `__metadata: version: ${format}`)
  return { name: 'yarn', version: BERRY_BY_FORMAT.get(format) ?? '4', evidence }
}
