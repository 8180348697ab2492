/** What a Python project depends on, from whichever of its manifests says so. */
import type { Evidence } from '../evidence.ts'
import type { FileTree } from '../tree.ts'
import { type IniValue, iniAt } from './ini-file.ts'
import type { PythonProject, ReadFile } from './python-project.ts'
import { normalized, type Requirement, requirementOf } from './python-requirements.ts'
import { at, isTable, lineOf, readPlain, short, tableAt } from './reading.ts'

export interface Group {
  readonly name: string
  readonly requirements: readonly Requirement[]
}

export interface Declared {
  /** What the project itself needs. */
  readonly main: readonly Requirement[]
  /** Optional ones, which the package offers to those who install it. */
  readonly extras: readonly Group[]
  /** For working on it, and never part of the package. */
  readonly groups: readonly Group[]
  /** Whether the manifest leaves it to its build to say more. */
  readonly isDynamic: boolean
}

/** Extras and groups that are for working on the project. Not those for its documentation, which need more than everything else and nobody misses in a test. */
const DEVELOPMENT =
  /^(?:dev|devel|develop|development|test|tests|testing|unit-tests?|lint|linting|linters?|type|types|typing|typecheck|type-check|check|checks|qa|quality|ci|format|formatting|style|mypy|ruff|pytest|tools?)$/

export function isForDevelopment(name: string): boolean {
  return DEVELOPMENT.test(normalized(name))
}

/** For each a line is looked for in a text that may be long. */
const MOST = 500

export function declared(project: PythonProject): Declared {
  const toml = project.pyproject
  const dynamic = at(toml?.data, 'project', 'dynamic')
  const isDynamic =
    Array.isArray(dynamic) && (dynamic.includes('dependencies') || dynamic.includes('optional-dependencies'))
  return {
    main: [
      ...projectMain(toml),
      ...poetryList(toml, 'dependencies'),
      ...setupMain(project),
      ...pipList(project, 'packages'),
    ],
    extras: [...projectExtras(toml), ...setupExtras(project)],
    groups: [
      ...dependencyGroups(toml),
      ...poetryGroups(toml),
      ...pdmGroups(toml),
      ...uvGroup(toml),
      ...pipfileGroup(project),
    ],
    isDynamic: isDynamic || (project.setupPy !== undefined && at(toml?.data, 'project') === undefined),
  }
}

/** Every requirement that anything in the project declares. */
export function allDeclared({ main, extras, groups }: Declared): readonly Requirement[] {
  return [
    ...main,
    ...extras.flatMap(({ requirements }) => requirements),
    ...groups.flatMap(({ requirements }) => requirements),
  ]
}

function sayer(toml: ReadFile, ...words: readonly string[]): (text: string) => Evidence {
  return (text) => {
    const line = lineOf(toml.text, ...words, text) ?? lineOf(toml.text, ...words)
    return { file: toml.file, ...(line !== undefined && { line }), said: short(text) }
  }
}

function listOf(value: unknown, evidence: (text: string) => Evidence): Requirement[] {
  if (!Array.isArray(value)) return []
  return value.slice(0, MOST).flatMap((one) => {
    const requirement = typeof one === 'string' ? requirementOf(one, evidence(one)) : undefined
    return requirement ? [requirement] : []
  })
}

function projectMain(toml: ReadFile | undefined): Requirement[] {
  return toml ? listOf(at(toml.data, 'project', 'dependencies'), sayer(toml, 'dependencies')) : []
}

function projectExtras(toml: ReadFile | undefined): Group[] {
  if (!toml) return []
  return Object.entries(tableAt(toml.data, 'project', 'optional-dependencies'))
    .slice(0, 200)
    .map(([name, list]) => ({ name, requirements: listOf(list, sayer(toml, 'optional-dependencies')) }))
}

/** Groups include one another; one that includes itself in the end is read once. */
function dependencyGroups(toml: ReadFile | undefined): Group[] {
  if (!toml) return []
  const table = tableAt(toml.data, 'dependency-groups')
  const collect = (name: string, seen: Set<string>): Requirement[] => {
    if (seen.has(name) || seen.size > 100) return []
    seen.add(name)
    const list = Object.hasOwn(table, name) ? table[name] : undefined
    if (!Array.isArray(list)) return []
    const included = list.flatMap((one) => {
      const other = isTable(one) ? one['include-group'] : undefined
      return typeof other === 'string' ? collect(other, seen) : []
    })
    return [...listOf(list, sayer(toml, '[dependency-groups]')), ...included]
  }
  return Object.keys(table)
    .slice(0, 200)
    .map((name) => ({ name, requirements: collect(name, new Set()) }))
}

/** Poetry and Pipenv write tables: `requests = "^2.31"`. */
function tableList(value: unknown, toml: ReadFile, words: readonly string[]): Requirement[] {
  return Object.entries(isTable(value) ? value : {})
    .slice(0, MOST)
    .flatMap(([name, wanted]) => {
      if (name === 'python') return []
      const said = `${name} = ${typeof wanted === 'string' ? JSON.stringify(wanted) : '{ ... }'}`
      const line = lineOf(toml.text, ...words, `\n${name} =`)
      const evidence = { file: toml.file, ...(line !== undefined && { line: line + 1 }), said: short(said) }
      const extras = isTable(wanted) && Array.isArray(wanted['extras']) ? wanted['extras'] : []
      const requirement = requirementOf(name, evidence)
      if (!requirement) return []
      return [{ ...requirement, extras: extras.filter((one) => typeof one === 'string').map(normalized) }]
    })
}

function poetryList(toml: ReadFile | undefined, key: string): Requirement[] {
  return toml ? tableList(at(toml.data, 'tool', 'poetry', key), toml, [`[tool.poetry.${key}]`]) : []
}

function poetryGroups(toml: ReadFile | undefined): Group[] {
  if (!toml) return []
  const groups = Object.entries(tableAt(toml.data, 'tool', 'poetry', 'group')).slice(0, 200)
  return [
    { name: 'dev', requirements: poetryList(toml, 'dev-dependencies') },
    ...groups.map(([name, group]) => ({
      name,
      requirements: tableList(at(group, 'dependencies'), toml, [`[tool.poetry.group.${name}.dependencies]`]),
    })),
  ].filter(({ requirements }) => requirements.length > 0)
}

function pdmGroups(toml: ReadFile | undefined): Group[] {
  if (!toml) return []
  return Object.entries(tableAt(toml.data, 'tool', 'pdm', 'dev-dependencies'))
    .slice(0, 200)
    .map(([name, list]) => ({ name, requirements: listOf(list, sayer(toml, 'dev-dependencies')) }))
}

function uvGroup(toml: ReadFile | undefined): Group[] {
  const list =
    toml && listOf(at(toml.data, 'tool', 'uv', 'dev-dependencies'), sayer(toml, 'dev-dependencies'))
  return list && list.length > 0 ? [{ name: 'dev', requirements: list }] : []
}

function pipList({ pipfile }: PythonProject, key: string): Requirement[] {
  return pipfile ? tableList(pipfile.data[key], pipfile, [`[${key}]`]) : []
}

function pipfileGroup(project: PythonProject): Group[] {
  const requirements = pipList(project, 'dev-packages')
  return requirements.length > 0 ? [{ name: 'dev-packages', requirements }] : []
}

export function iniList(file: string, value: IniValue | undefined): Requirement[] {
  return (value?.text ?? '')
    .split('\n')
    .slice(0, MOST)
    .flatMap((text, index) => {
      const evidence = { file, line: (value?.line ?? 1) + index, said: short(text) }
      const requirement = requirementOf(text, evidence)
      return requirement ? [requirement] : []
    })
}

/** What a program computes cannot be read; lists that are written out can. */
function setupMain({ setupCfg, setupPy }: PythonProject): Requirement[] {
  const listed = setupCfg ? iniList(setupCfg.file, iniAt(setupCfg.ini, 'options', 'install_requires')) : []
  return [
    ...listed,
    ...(setupPy
      ? quotedIn(setupPy, /\b(?:install_requires|tests_require)\s{0,5}=\s{0,5}\[([^\]]{0,8000})\]/g)
      : []),
  ]
}

function setupExtras({ setupCfg, setupPy }: PythonProject): Group[] {
  const section = setupCfg?.ini.get('options.extras_require')
  const listed = [...(section ?? [])].map(([name, value]) => ({
    name,
    requirements: iniList(setupCfg?.file ?? '', value),
  }))
  const [, body = ''] = /\bextras_require\s{0,5}=\s{0,5}\{([^}]{0,8000})\}/.exec(setupPy?.text ?? '') ?? []
  const written = [...body.matchAll(/['"]([\w.-]{1,60})['"]\s{0,5}:\s{0,5}\[([^\]]{0,10000})\]/g)].map(
    ([, name = '', list = '']) => ({
      name,
      requirements: setupPy ? quoted(setupPy, list) : [],
    }),
  )
  return [...listed, ...written].slice(0, 200)
}

function quotedIn(setup: { readonly file: string; readonly text: string }, pattern: RegExp): Requirement[] {
  return [...setup.text.matchAll(pattern)].flatMap(([, list = '']) => quoted(setup, list))
}

function quoted(
  { file, text }: { readonly file: string; readonly text: string },
  list: string,
): Requirement[] {
  return [...list.matchAll(/(['"])([^'"\n]{1,200})\1/g)].slice(0, MOST).flatMap(([, , one = '']) => {
    const line = lineOf(text, one)
    const requirement = requirementOf(one, { file, ...(line !== undefined && { line }), said: short(one) })
    return requirement ? [requirement] : []
  })
}

/** Names of everything that a lockfile holds, as far as it can be read. */
export function isLocked(tree: FileTree, lockfile: string | undefined, name: string): boolean {
  const text = lockfile === undefined ? undefined : readPlain(tree, lockfile)
  return text?.includes(`\nname = "${name}"\n`) === true || text?.includes(`\n        "${name}": {`) === true
}
