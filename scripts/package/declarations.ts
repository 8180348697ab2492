/**
 * Type files for the public entries: what tsc emits for src/exports, reduced to the declarations that an
 * entry reaches, with the types of zod schemas written out. The result imports Node's own modules and nothing
 * else, so a program that uses AgentPod compiles without zod or hono.
 */
import { execFileSync } from 'node:child_process'
import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'

/** `export type Name = z.infer<typeof schema>`, in sources and in emitted files. */
const SCHEMA_TYPE = /^export type (?<name>\w+) = z\.(?:infer|input|output)<typeof \w+>;?$/gm

/** Gives the type files by their path below the type directory, such as `exports/client.d.ts`. */
export function declarationsOf(root: string): ReadonlyMap<string, string> {
  const emitted = emit(root)
  const modules = new Map([...emitted].map(([path, text]) => [path, parseModule(path, text)]))
  const entries = [...modules.keys()].filter((path) => path.startsWith('exports/'))
  markReachable(modules, entries)
  const kept = [...modules].map(([path, one]) => [path, print(one, entries.includes(path))] as const)
  const files = new Map(kept.filter(([, text]) => text !== ''))
  for (const [path, text] of files) checkImports(path, text)
  return files
}

/**
 * Runs tsc on the entries and on a module that has a constant of each schema's type, which tsc writes out in
 * full.
 */
function emit(root: string): Map<string, string> {
  const work = join(root, '.cache', 'types')
  rmSync(work, { recursive: true, force: true })
  mkdirSync(work, { recursive: true })
  const plain = schemaTypes(root)
  const sources = [...new Set(plain.map(({ source }) => source))]
  const imported = sources.map((source, at) => `import type * as m${at} from '../../${source}'`)
  const constants = plain.map(
    ({ source, name }, at) => `export const t${at} = of<m${sources.indexOf(source)}.${name}>()`,
  )
  writeFileSync(
    join(work, 'plain.ts'),
    [...imported, 'declare function of<T>(): T', ...constants, ''].join('\n'),
  )
  const options = {
    noEmit: false,
    declaration: true,
    emitDeclarationOnly: true,
    rootDir: root,
    outDir: 'out',
  }
  writeFileSync(
    join(work, 'tsconfig.json'),
    JSON.stringify({
      extends: '../../tsconfig.json',
      compilerOptions: { ...options, noErrorTruncation: true },
      include: ['../../src/exports', 'plain.ts'],
    }),
  )
  execFileSync(join(root, 'node_modules', '.bin', 'tsc'), ['-p', work, '--pretty', 'false'], {
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const out = join(work, 'out')
  const written = parsePlain(readFileSync(join(out, '.cache', 'types', 'plain.d.ts'), 'utf8'))
  const files = globSync('**/*.d.ts', { cwd: join(out, 'src') }).sort()
  const texts = files.map((path) => {
    const source = `src/${path.replace(/\.d\.ts$/, '.ts')}`
    const text = readFileSync(join(out, 'src', path), 'utf8').replaceAll(SCHEMA_TYPE, (_, name: string) => {
      const type = written.get(`t${plain.findIndex((one) => one.source === source && one.name === name)}`)
      if (type === undefined) throw new Error(`${source}: tsc did not write out ${name}`)
      return `export type ${name} = ${type};`
    })
    return [path, text] as const
  })
  rmSync(work, { recursive: true })
  return new Map(texts)
}

function schemaTypes(root: string): { readonly source: string; readonly name: string }[] {
  const sources = globSync('src/**/*.ts', { cwd: root, exclude: ['**/*.test.ts'] }).sort()
  return sources.flatMap((source) => {
    const text = readFileSync(join(root, source), 'utf8')
    return [...text.matchAll(SCHEMA_TYPE)].map(({ groups }) => ({ source, name: groups?.['name'] ?? '' }))
  })
}

function parsePlain(text: string): Map<string, string> {
  const constants = text.split(/^export declare const /m).slice(1)
  return new Map(
    constants.map((one) => {
      const [name = '', ...type] = one.split(': ')
      return [
        name,
        type
          .join(': ')
          .trim()
          .replace(/;(?:\nexport \{\};)?$/, ''),
      ]
    }),
  )
}

interface Statement {
  readonly text: string
  readonly declares: string | undefined
  readonly uses: ReadonlySet<string>
  isReached: boolean
}

interface Import {
  /** Undefined for a module outside of ours. */
  readonly from: string | undefined
  readonly specifier: string
  /** The name inside the other module; `*` for all of it. */
  readonly imported: string
  readonly isType: boolean
}

interface Module {
  readonly path: string
  readonly statements: readonly Statement[]
  readonly imports: ReadonlyMap<string, Import>
  /** `export { A } from './a.ts'`, by the exported name. */
  readonly reexports: ReadonlyMap<string, Import>
}

/**
 * tsc begins each statement in the first column, with its comment above, and indents the lines that follow or
 * begins them with a bracket. A comment may also stand before a part of a union.
 */
const STATEMENT =
  /^(?:\/\*\*(?:[^*]|\*(?!\/))*\*\/\n)?[a-z].*(?:\n(?![a-z]|\/\*\*(?:[^*]|\*(?!\/))*\*\/\n[a-z]).*)*/gm
const DECLARED =
  /^(?:export )?(?:declare )?(?:abstract )?(?:class|interface|type|const|function|namespace) (?<name>[\w$]+)/
const COMMENTS_AND_STRINGS = /\/\*[\s\S]*?\*\/|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g
/** Names of members and parameters: they name nothing outside. */
const LABELS = /[\w$]+\??:|^\s+(?:(?:static|readonly|get|set|abstract) )*[\w$]+\??(?=[(<])|\.[\w$]+/gm

function parseModule(path: string, text: string): Module {
  const imports = new Map<string, Import>()
  const reexports = new Map<string, Import>()
  const statements: Statement[] = []
  for (const [statement] of text.matchAll(STATEMENT)) {
    const code = statement
      .replace(COMMENTS_AND_STRINGS, (found) => (found.startsWith('/*') ? '' : found))
      .trim()
    if (code === 'export {};') continue
    const from = /\bfrom ['"](?<specifier>[^'"]+)['"];$/.exec(code)?.groups?.['specifier']
    if (from !== undefined) {
      const target = code.startsWith('import') ? imports : reexports
      for (const [local, one] of namesIn(path, code, from)) target.set(local, one)
      continue
    }
    const declares = DECLARED.exec(code)?.groups?.['name']
    if (declares === undefined) throw new Error(`${path}: cannot read ${code}`)
    const names = code.replaceAll(COMMENTS_AND_STRINGS, '""').replaceAll(LABELS, ' ')
    statements.push({ text: statement, declares, uses: new Set(names.match(/[\w$]+/g)), isReached: false })
  }
  return { path, statements, imports, reexports }
}

function namesIn(path: string, code: string, specifier: string): [local: string, one: Import][] {
  const from = specifier.startsWith('.')
    ? posix.join(posix.dirname(path), specifier).replace(/\.ts$/, '.d.ts')
    : undefined
  const isType = /^(?:im|ex)port type /.test(code)
  const all = /\* as ([\w$]+)/.exec(code)?.[1]
  if (all !== undefined) return [[all, { from, specifier, imported: '*', isType }]]
  const byDefault = /^import (?:type )?([\w$]+) from /.exec(code)?.[1]
  if (byDefault !== undefined) return [[byDefault, { from, specifier, imported: 'default', isType }]]
  const list = /\{(?<names>[^}]*)\}/.exec(code)?.groups?.['names']
  if (list === undefined) throw new Error(`${path}: cannot read ${code}`)
  return list
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
    .map((one) => {
      const [imported = '', local = imported] = one.replace(/^type /, '').split(' as ')
      return [local, { from, specifier, imported, isType: isType || one.startsWith('type ') }]
    })
}

function markReachable(modules: ReadonlyMap<string, Module>, entries: readonly string[]): void {
  const reach = (path: string, name: string): void => {
    const module = modules.get(path)
    if (!module) throw new Error(`no type file ${path}`)
    const imported = module.reexports.get(name) ?? module.imports.get(name)
    if (imported?.from !== undefined) reach(imported.from, imported.imported)
    for (const statement of module.statements) {
      if (statement.isReached || (name !== '*' && statement.declares !== name)) continue
      if (/\bimport\(['"]/.test(statement.text))
        throw new Error(`${path}: name the type that ${name} imports`)
      statement.isReached = true
      for (const used of statement.uses) reach(path, used)
    }
  }
  for (const path of entries) {
    reach(path, '*')
    for (const name of modules.get(path)?.reexports.keys() ?? []) reach(path, name)
  }
}

/** The reached part of a module; the empty text where there is none. */
function print(module: Module, isEntry: boolean): string {
  const reached = module.statements.filter(({ isReached }) => isReached)
  const used = new Set(reached.flatMap(({ uses }) => [...uses]))
  const lines = [
    ...statementsOf(
      'import',
      [...module.imports].filter(([local]) => used.has(local)),
    ),
    ...statementsOf('export', [...module.reexports]),
    ...reached.map(({ text }) => text),
  ]
  if (lines.length === 0) return ''
  // TypeScript 7 includes no types that a program does not name.
  return `${[...(isEntry ? ['/// <reference types="node" />'] : []), ...lines, 'export {};'].join('\n')}\n`
}

function statementsOf(verb: string, names: readonly (readonly [string, Import])[]): string[] {
  const bySpecifier = Map.groupBy(names, ([, { specifier }]) => specifier)
  return [...bySpecifier].flatMap(([specifier, group]) => {
    const path = specifier.startsWith('.') ? specifier.replace(/\.ts$/, '.js') : specifier
    const whole = group.filter(([, { imported }]) => imported === '*')
    const named = group
      .filter(([, { imported }]) => imported !== '*')
      .map(([local, { imported, isType }]) => {
        const name = imported === local ? local : `${imported} as ${local}`
        return isType ? `type ${name}` : name
      })
    return [
      ...whole.map(([local]) => `${verb} type * as ${local} from '${path}';`),
      ...(named.length > 0 ? [`${verb} { ${named.join(', ')} } from '${path}';`] : []),
    ]
  })
}

function checkImports(path: string, text: string): void {
  for (const [, specifier = ''] of text.matchAll(/\bfrom '([^']+)'/g))
    if (!specifier.startsWith('.') && !specifier.startsWith('node:'))
      throw new Error(`the type file ${path} imports ${specifier}; public types use Node's own modules alone`)
}

/** Writes the type files below a directory that is empty. */
export function writeDeclarations(root: string, directory: string): void {
  for (const [path, text] of declarationsOf(root)) {
    const file = join(directory, path)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
}
