/** Maven's project files: their parents, their modules, and the values of their properties. */
import { isObject, type JsonObject, objectAt, valueAt } from '../../../util/untrusted-json.ts'
import type { Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import { evidenceIn, malformedNote, shortQuote } from '../project-files/parsed-file.ts'
import { MOST_PARTS, pathInProject } from '../project-files/paths.ts'
import { elements, elementText, readXmlFile, tableElements } from '../project-files/xml-file.ts'

export interface Pom {
  readonly file: string
  readonly directory: string
  readonly text: string
  readonly project: JsonObject
  readonly problem: string | undefined
}

export interface MavenPlugin {
  readonly pom: Pom
  readonly name: string
  readonly configuration: JsonObject
}

const MOST_PARENTS = 10
const MOST_STEPS = 10
const LONGEST_VALUE = 200

export function readPom(tree: FileTree, file: string): Pom | undefined {
  const read = readXmlFile(tree, file)
  if (!read) return undefined
  const project = valueAt(read.data, 'project')
  const isOne = isObject(project)
  const problem = read.problem ?? (isOne ? undefined : 'it contains no project')
  return { file, directory: directoryOf(file), text: read.text, project: isOne ? project : {}, problem }
}

/** A module is named by its directory or by its file. */
export function pomAt(tree: FileTree, path: string): string | undefined {
  return [joinPath(path, 'pom.xml'), path].find((one) => tree.has(one))
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
    if (pom.problem) notes.push(malformedNote(next, pom.problem))
    waiting.push(...modulesOf(tree, pom, notes))
  }
  return [...found.values()]
}

function modulesOf(tree: FileTree, pom: Pom, notes: string[]): readonly string[] {
  const places = [pom.project, ...tableElements(valueAt(pom.project, 'profiles', 'profile'))]
  const names = places.flatMap((place) => [
    ...elements(valueAt(place, 'modules', 'module')),
    ...elements(valueAt(place, 'subprojects', 'subproject')),
  ])
  return names.slice(0, MOST_PARTS).flatMap((one) => {
    const name = elementText(one)
    if (name === undefined) return []
    const path = pathInProject(pom.directory, name)
    if (path === undefined) notes.push(`${pom.file} has a module outside the project: ${shortQuote(name)}`)
    const found = path === undefined ? undefined : pomAt(tree, path)
    return found === undefined ? [] : [found]
  })
}

/** Parents within the project, nearest first. A pom that is its own ancestor ends the chain. */
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

/** The file at the expected place may be another project's: its name must match. */
function parentOf(tree: FileTree, pom: Pom): Pom | undefined {
  const parent = valueAt(pom.project, 'parent')
  if (!isObject(parent)) return undefined
  const written = valueAt(parent, 'relativePath')
  if (written === '') return undefined
  const path = pathInProject(pom.directory, elementText(written) ?? '../pom.xml')
  const file = path === undefined ? undefined : pomAt(tree, path)
  const found = file === undefined ? undefined : readPom(tree, file)
  const isIt =
    elementText(valueAt(found?.project, 'artifactId')) === elementText(valueAt(parent, 'artifactId'))
  return isIt ? found : undefined
}

export interface PropertyValue {
  readonly text: string
  readonly evidence: Evidence
}

/** A property of a pom, with references resolved. */
export function propertyOf(tree: FileTree, pom: Pom, name: string): PropertyValue | undefined {
  const written = elementText(valueAt(pom.project, 'properties', name))
  if (written === undefined) return undefined
  const evidence = evidenceIn(pom.file, pom.text, [`<${name}>`], `<${name}>${written}`)
  const text = resolveProperties(tree, pom, written)
  return text === undefined ? undefined : { text, evidence }
}

/** Text with references resolved; undefined if one is not known. */
export function resolveProperties(tree: FileTree, pom: Pom, written: string): string | undefined {
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
      ? elementText(valueAt(project, field) ?? valueAt(project, 'parent', field))
      : elementText(valueAt(project, 'properties', name))
    if (value !== undefined) return value
  }
  return undefined
}

/** The plugins of a pom, including managed ones that it does not use. */
export function pluginsOf(pom: Pom): readonly MavenPlugin[] {
  const build = objectAt(pom.project, 'build')
  const all = [
    ...tableElements(valueAt(build, 'plugins', 'plugin')),
    ...tableElements(valueAt(build, 'pluginManagement', 'plugins', 'plugin')),
  ]
  return all.flatMap((plugin) => {
    const name = elementText(valueAt(plugin, 'artifactId'))
    return name === undefined ? [] : [{ pom, name, configuration: objectAt(plugin, 'configuration') }]
  })
}

/** The plugins that run. */
export function activePlugins(pom: Pom): readonly string[] {
  return tableElements(valueAt(pom.project, 'build', 'plugins', 'plugin')).flatMap(
    (plugin) => elementText(valueAt(plugin, 'artifactId')) ?? [],
  )
}
