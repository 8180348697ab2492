/** The Python package manager of a project. */
import { isObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import { type FileTree, joinPath } from '../../file-tree.ts'
import type { FoundTool } from '../finding.ts'
import { evidenceIn, readTextFile, textAt, versionText } from '../project-files/parsed-file.ts'
import type { PythonProject } from './project.ts'

export type PythonManagerName = 'uv' | 'poetry' | 'pdm' | 'pipenv' | 'pip'

export interface PythonManager {
  readonly name: PythonManagerName
  readonly evidence: Evidence
  readonly beat: readonly { readonly name: string; readonly evidence: Evidence; readonly why: string }[]
  readonly lockfile?: string | undefined
  readonly tool?: FoundTool | undefined
}

interface Vote {
  readonly name: PythonManagerName
  readonly evidence: Evidence
  readonly isLockfile: boolean
}

const LOCKFILES: readonly (readonly [file: string, name: PythonManagerName])[] = [
  ['uv.lock', 'uv'],
  ['poetry.lock', 'poetry'],
  ['pdm.lock', 'pdm'],
  ['Pipfile.lock', 'pipenv'],
]

export function pythonManager(tree: FileTree, project: PythonProject): PythonManager {
  const votes = [...lockfiles(tree, project), ...tables(project)]
  const chosen = votes[0]
  if (!chosen) return { name: 'pip', evidence: project.evidence, beat: [] }
  const seen = new Set<PythonManagerName>([chosen.name])
  const beat = votes.flatMap(({ name, evidence, isLockfile }) => {
    if (seen.has(name)) return []
    seen.add(name)
    const why = isLockfile
      ? `there are several lockfiles and that of ${chosen.name} goes first`
      : `there is ${chosen.isLockfile ? 'a lockfile' : 'a table'} of ${chosen.name}`
    return [{ name, evidence, why }]
  })
  const lockfile = LOCKFILES.filter(([, name]) => name === chosen.name)
    .map(([file]) => joinPath(project.directory, file))
    .find((file) => tree.has(file))
  return {
    name: chosen.name,
    evidence: chosen.evidence,
    beat,
    ...(lockfile !== undefined && { lockfile }),
    tool: toolOf(tree, project, chosen, lockfile),
  }
}

function lockfiles(tree: FileTree, { directory }: PythonProject): Vote[] {
  return LOCKFILES.flatMap(([name, manager]) => {
    const file = joinPath(directory, name)
    return tree.has(file) ? [{ name: manager, evidence: { file, said: name }, isLockfile: true }] : []
  })
}

function tables({ pyproject, pipfile }: PythonProject): Vote[] {
  const tools = objectAt(pyproject?.data, 'tool')
  const named = (['uv', 'poetry', 'pdm'] as const).flatMap((name): Vote[] => {
    if (!pyproject || !Object.hasOwn(tools, name)) return []
    // Poetry plugins have their own tables, and so has uv's pip interface.
    if (name === 'uv' && !Object.hasOwn(pyproject.data, 'project')) return []
    if (name === 'pdm' && !isManaged(tools['pdm'])) return []
    const words = [`[tool.${name}`]
    return [
      {
        name,
        evidence: evidenceIn(pyproject.file, pyproject.text, words, `[tool.${name}]`),
        isLockfile: false,
      },
    ]
  })
  const backend = textAt(pyproject?.data, 'build-system', 'build-backend')
  if (pyproject && backend?.startsWith('poetry.') && !named.some(({ name }) => name === 'poetry'))
    named.push({
      name: 'poetry',
      evidence: evidenceIn(pyproject.file, pyproject.text, ['build-backend'], `build-backend = "${backend}"`),
      isLockfile: false,
    })
  return pipfile
    ? [...named, { name: 'pipenv', evidence: { file: pipfile.file, said: 'Pipfile' }, isLockfile: false }]
    : named
}

/** The build backend shares its name and table with the package manager. */
function isManaged(pdm: unknown): boolean {
  const ofInstaller = ['dev-dependencies', 'scripts', 'options', 'resolution', 'source', 'python']
  return Object.keys(isObject(pdm) ? pdm : {}).some((key) => ofInstaller.includes(key))
}

function toolOf(
  tree: FileTree,
  project: PythonProject,
  { name, evidence }: Vote,
  lockfile: string | undefined,
): FoundTool {
  if (name === 'uv') return required(project, name, ['tool', 'uv', 'required-version']) ?? { name, evidence }
  if (name === 'poetry')
    return (
      writer(tree, lockfile) ??
      required(project, name, ['tool', 'poetry', 'requires-poetry']) ?? { name, evidence }
    )
  return { name, evidence }
}

function required(project: PythonProject, name: string, keys: readonly string[]): FoundTool | undefined {
  const toml = project.pyproject
  const version = versionText(valueAt(toml?.data, ...keys))
  const key = keys.at(-1) ?? ''
  if (!toml || version === undefined) return undefined
  return { name, version, evidence: evidenceIn(toml.file, toml.text, [key], `${key} = "${version}"`) }
}

/** Poetry writes its version into the lockfile; for older lockfiles the format tells the major version. */
function writer(tree: FileTree, lockfile: string | undefined): FoundTool | undefined {
  const text = lockfile === undefined ? undefined : readTextFile(tree, lockfile)
  if (lockfile === undefined || text === undefined) return undefined
  const [said = '', version] =
    /@generated by Poetry (\d{1,3}\.\d{1,3}\.\d{1,3})/.exec(text.slice(0, 500)) ?? []
  if (version !== undefined)
    return { name: 'poetry', version, evidence: evidenceIn(lockfile, text, [said], said) }
  const [line = '', format] = /\nlock-version = "(\d{1,3}\.\d{1,3})"/.exec(text) ?? []
  if (format === undefined) return undefined
  const evidence = evidenceIn(lockfile, text, [line.trim()], line)
  return { name: 'poetry', version: Number(format) > 2 ? '2' : '1', evidence }
}
