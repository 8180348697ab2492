/** Maven's project files: their parents, their modules, and the values of their properties. */
import type { Evidence } from '../evidence.ts'
import { directoryOf, type FileTree, within } from '../tree.ts'
import { inside, MOST_PARTS } from './place.ts'
import { at, evidenceIn, isTable, malformed, short, type Table, tableAt } from './reading.ts'
import { elementText, many, manyTables, readXml } from './xml-file.ts'

export interface Pom {
  readonly file: string
  readonly directory: string
  readonly text: string
  readonly project: Table
  readonly problem: string | undefined
}

export interface Plugin {
  readonly pom: Pom
  readonly name: string
  readonly configuration: Table
}

const MOST_PARENTS = 10
const MOST_STEPS = 10
const LONGEST_VALUE = 200

export function readPom(tree: FileTree, file: string): Pom | undefined {
  const read = readXml(tree, file)
  if (!read) return undefined
  const project = at(read.data, 'project')
  const isOne = isTable(project)
  const problem = read.problem ?? (isOne ? undefined : 'it holds no project')
  return { file, directory: directoryOf(file), text: read.text, project: isOne ? project : {}, problem }
}

/** A module is named by its directory or by its file. */
export function pomAt(tree: FileTree, path: string): string | undefined {
  return [within(path, 'pom.xml'), path].find((one) => tree.has(one))
}

/** A reactor: a pom and every module below it, each once. */
export function reactorOf(tree: FileTree, file: string, notes: string[]): readonly Pom[] {
  const found = new Map<string, Pom>()
  const waiting = [file]
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    if (found.has(next) || found.size >= MOST_PARTS) continue
    const pom = readPom(tree, next)
    if (!pom) continue
    found.set(next, pom)
    if (pom.problem) notes.push(malformed(next, pom.problem))
    waiting.push(...modulesOf(tree, pom, notes))
  }
  return [...found.values()]
}

function modulesOf(tree: FileTree, pom: Pom, notes: string[]): readonly string[] {
  const places = [pom.project, ...manyTables(at(pom.project, 'profiles', 'profile'))]
  const names = places.flatMap((place) => [
    ...many(at(place, 'modules', 'module')),
    ...many(at(place, 'subprojects', 'subproject')),
  ])
  return names.slice(0, MOST_PARTS).flatMap((one) => {
    const name = elementText(one)
    if (name === undefined) return []
    const path = inside(pom.directory, name)
    if (path === undefined) notes.push(`${pom.file} has a module outside of the project: ${short(name)}`)
    const found = path === undefined ? undefined : pomAt(tree, path)
    return found === undefined ? [] : [found]
  })
}

/** Parents that lie in the project, the nearest first. A pom that is its own ancestor ends the chain. */
export function parentsOf(tree: FileTree, pom: Pom): readonly Pom[] {
  const chain: Pom[] = []
  const seen = new Set([pom.file])
  for (let here: Pom | undefined = pom; here && chain.length < MOST_PARENTS; ) {
    here = parentOf(tree, here)
    if (!here || seen.has(here.file)) break
    seen.add(here.file)
    chain.push(here)
  }
  return chain
}

/** The file where the parent is supposed to be may be somebody else's: it has to have the name. */
function parentOf(tree: FileTree, pom: Pom): Pom | undefined {
  const parent = at(pom.project, 'parent')
  if (!isTable(parent)) return undefined
  const written = at(parent, 'relativePath')
  if (written === '') return undefined
  const path = inside(pom.directory, elementText(written) ?? '../pom.xml')
  const file = path === undefined ? undefined : pomAt(tree, path)
  const found = file === undefined ? undefined : readPom(tree, file)
  const isIt = elementText(at(found?.project, 'artifactId')) === elementText(at(parent, 'artifactId'))
  return isIt ? found : undefined
}

export interface Value {
  readonly text: string
  readonly evidence: Evidence
}

/** A property of a pom itself, with what it refers to put in its place. */
export function propertyOf(tree: FileTree, pom: Pom, name: string): Value | undefined {
  const written = elementText(at(pom.project, 'properties', name))
  if (written === undefined) return undefined
  const evidence = evidenceIn(pom.file, pom.text, [`<${name}>`], `<${name}>${written}`)
  const text = resolved(tree, pom, written)
  return text === undefined ? undefined : { text, evidence }
}

/** Text without references to properties; undefined where one cannot be told. */
export function resolved(tree: FileTree, pom: Pom, written: string): string | undefined {
  const chain = [pom, ...parentsOf(tree, pom)]
  let text = written
  for (let step = 0; step < MOST_STEPS && text.length <= LONGEST_VALUE; step++) {
    const reference = /\$\{([\w.-]{1,100})\}/.exec(text)
    if (!reference) return text.includes('${') ? undefined : text
    const value = lookUp(chain, reference[1] ?? '')
    if (value === undefined) return undefined
    text = text.slice(0, reference.index) + value + text.slice(reference.index + reference[0].length)
  }
  return undefined
}

function lookUp(chain: readonly Pom[], name: string): string | undefined {
  const [, field] = /^(?:project|pom)\.(artifactId|version|groupId)$/.exec(name) ?? []
  for (const { project } of chain) {
    const value = field
      ? elementText(at(project, field) ?? at(project, 'parent', field))
      : elementText(at(project, 'properties', name))
    if (value !== undefined) return value
  }
  return undefined
}

/** What a pom builds with, and what it would build with if it did. */
export function pluginsOf(pom: Pom): readonly Plugin[] {
  const build = tableAt(pom.project, 'build')
  const all = [
    ...manyTables(at(build, 'plugins', 'plugin')),
    ...manyTables(at(build, 'pluginManagement', 'plugins', 'plugin')),
  ]
  return all.flatMap((plugin) => {
    const name = elementText(at(plugin, 'artifactId'))
    return name === undefined ? [] : [{ pom, name, configuration: tableAt(plugin, 'configuration') }]
  })
}

/** The plugins that run. */
export function activePlugins(pom: Pom): readonly string[] {
  return manyTables(at(pom.project, 'build', 'plugins', 'plugin')).flatMap(
    (plugin) => elementText(at(plugin, 'artifactId')) ?? [],
  )
}
