/** The dependencies of a Python project, from any of its manifests. */
import { isObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import type { FileTree } from '../../file-tree.ts'
import { type IniValue, iniAt } from '../project-files/ini-file.ts'
import { lineOf, readTextFile, shortQuote } from '../project-files/parsed-file.ts'
import type { PythonManifest, PythonProject } from './project.ts'
import { normalizedName, type Requirement, requirementOf } from './requirements.ts'

export interface DependencyGroup {
  readonly name: string
  readonly requirements: readonly Requirement[]
}

export interface DeclaredDependency {
  /** Dependencies of the project itself. */
  readonly main: readonly Requirement[]
  /** Optional dependencies that the package offers. */
  readonly extras: readonly DependencyGroup[]
  /** For working on it, and never part of the package. */
  readonly groups: readonly DependencyGroup[]
  /** Whether the build adds more dependencies. */
  readonly isDynamic: boolean
}

/**
 * Extras and groups for development. Those for documentation are left out: they are large and tests do not
 * need them.
 */
const DEVELOPMENT =
  /^(?:dev|devel|develop|development|test|tests|testing|unit-tests?|lint|linting|linters?|type|types|typing|typecheck|type-check|check|checks|qa|quality|ci|format|formatting|style|mypy|ruff|pytest|tools?)$/

export function isForDevelopment(name: string): boolean {
  return DEVELOPMENT.test(normalizedName(name))
}

/** For each a line is looked for in a text that may be long. */
const MOST = 500

export function declaredDependencies(project: PythonProject): DeclaredDependency {
  const toml = project.pyproject
  const dynamic = valueAt(toml?.data, 'project', 'dynamic')
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
    isDynamic: isDynamic || (project.setupPy !== undefined && valueAt(toml?.data, 'project') === undefined),
  }
}

/** Every requirement that anything in the project declares. */
export function allDependencies({ main, extras, groups }: DeclaredDependency): readonly Requirement[] {
  return [
    ...main,
    ...extras.flatMap(({ requirements }) => requirements),
    ...groups.flatMap(({ requirements }) => requirements),
  ]
}

function sayer(toml: PythonManifest, ...words: readonly string[]): (text: string) => Evidence {
  return (text) => {
    const line = lineOf(toml.text, ...words, text) ?? lineOf(toml.text, ...words)
    return { file: toml.file, ...(line !== undefined && { line }), said: shortQuote(text) }
  }
}

function listOf(value: unknown, evidence: (text: string) => Evidence): Requirement[] {
  if (!Array.isArray(value)) return []
  return value.slice(0, MOST).flatMap((one) => {
    const requirement = typeof one === 'string' ? requirementOf(one, evidence(one)) : undefined
    return requirement ? [requirement] : []
  })
}

function projectMain(toml: PythonManifest | undefined): Requirement[] {
  return toml ? listOf(valueAt(toml.data, 'project', 'dependencies'), sayer(toml, 'dependencies')) : []
}

function projectExtras(toml: PythonManifest | undefined): DependencyGroup[] {
  if (!toml) return []
  return Object.entries(objectAt(toml.data, 'project', 'optional-dependencies'))
    .slice(0, 200)
    .map(([name, list]) => ({ name, requirements: listOf(list, sayer(toml, 'optional-dependencies')) }))
}

/** Groups can include each other; a cycle is read once. */
function dependencyGroups(toml: PythonManifest | undefined): DependencyGroup[] {
  if (!toml) return []
  const table = objectAt(toml.data, 'dependency-groups')
  const collect = (name: string, seen: Set<string>): Requirement[] => {
    if (seen.has(name) || seen.size > 100) return []
    seen.add(name)
    const list = Object.hasOwn(table, name) ? table[name] : undefined
    if (!Array.isArray(list)) return []
    const included = list.flatMap((one) => {
      const other = isObject(one) ? one['include-group'] : undefined
      return typeof other === 'string' ? collect(other, seen) : []
    })
    return [...listOf(list, sayer(toml, '[dependency-groups]')), ...included]
  }
  return Object.keys(table)
    .slice(0, 200)
    .map((name) => ({ name, requirements: collect(name, new Set()) }))
}

/** Poetry and Pipenv write tables: `requests = "^2.31"`. */
function tableList(value: unknown, toml: PythonManifest, words: readonly string[]): Requirement[] {
  return Object.entries(isObject(value) ? value : {})
    .slice(0, MOST)
    .flatMap(([name, wanted]) => {
      if (name === 'python') return []
      const said = `${name} = ${typeof wanted === 'string' ? JSON.stringify(wanted) : '{ ... }'}`
      const line = lineOf(toml.text, ...words, `\n${name} =`)
      const evidence = {
        file: toml.file,
        ...(line !== undefined && { line: line + 1 }),
        said: shortQuote(said),
      }
      const extras = isObject(wanted) && Array.isArray(wanted['extras']) ? wanted['extras'] : []
      const requirement = requirementOf(name, evidence)
      if (!requirement) return []
      return [{ ...requirement, extras: extras.filter((one) => typeof one === 'string').map(normalizedName) }]
    })
}

function poetryList(toml: PythonManifest | undefined, key: string): Requirement[] {
  return toml ? tableList(valueAt(toml.data, 'tool', 'poetry', key), toml, [`[tool.poetry.${key}]`]) : []
}

function poetryGroups(toml: PythonManifest | undefined): DependencyGroup[] {
  if (!toml) return []
  const groups = Object.entries(objectAt(toml.data, 'tool', 'poetry', 'group')).slice(0, 200)
  return [
    { name: 'dev', requirements: poetryList(toml, 'dev-dependencies') },
    ...groups.map(([name, group]) => ({
      name,
      requirements: tableList(valueAt(group, 'dependencies'), toml, [
        `[tool.poetry.group.${name}.dependencies]`,
      ]),
    })),
  ].filter(({ requirements }) => requirements.length > 0)
}

function pdmGroups(toml: PythonManifest | undefined): DependencyGroup[] {
  if (!toml) return []
  return Object.entries(objectAt(toml.data, 'tool', 'pdm', 'dev-dependencies'))
    .slice(0, 200)
    .map(([name, list]) => ({ name, requirements: listOf(list, sayer(toml, 'dev-dependencies')) }))
}

function uvGroup(toml: PythonManifest | undefined): DependencyGroup[] {
  const list =
    toml && listOf(valueAt(toml.data, 'tool', 'uv', 'dev-dependencies'), sayer(toml, 'dev-dependencies'))
  return list && list.length > 0 ? [{ name: 'dev', requirements: list }] : []
}

function pipList({ pipfile }: PythonProject, key: string): Requirement[] {
  return pipfile ? tableList(pipfile.data[key], pipfile, [`[${key}]`]) : []
}

function pipfileGroup(project: PythonProject): DependencyGroup[] {
  const requirements = pipList(project, 'dev-packages')
  return requirements.length > 0 ? [{ name: 'dev-packages', requirements }] : []
}

export function iniList(file: string, value: IniValue | undefined): Requirement[] {
  return (value?.text ?? '')
    .split('\n')
    .slice(0, MOST)
    .flatMap((text, index) => {
      const evidence = { file, line: (value?.line ?? 1) + index, said: shortQuote(text) }
      const requirement = requirementOf(text, evidence)
      return requirement ? [requirement] : []
    })
}

/** Computed dependencies cannot be read; literal lists can. */
function setupMain({ setupCfg, setupPy }: PythonProject): Requirement[] {
  const listed = setupCfg ? iniList(setupCfg.file, iniAt(setupCfg.ini, 'options', 'install_requires')) : []
  return [
    ...listed,
    ...(setupPy
      ? quotedIn(setupPy, /\b(?:install_requires|tests_require)\s{0,5}=\s{0,5}\[([^\]]{0,8000})\]/g)
      : []),
  ]
}

function setupExtras({ setupCfg, setupPy }: PythonProject): DependencyGroup[] {
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
    const requirement = requirementOf(one, {
      file,
      ...(line !== undefined && { line }),
      said: shortQuote(one),
    })
    return requirement ? [requirement] : []
  })
}

/** The names in a lockfile, if it can be read. */
export function isLocked(tree: FileTree, lockfile: string | undefined, name: string): boolean {
  const text = lockfile === undefined ? undefined : readTextFile(tree, lockfile)
  return text?.includes(`\nname = "${name}"\n`) === true || text?.includes(`\n        "${name}": {`) === true
}
