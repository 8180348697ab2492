/** Maven: reactors of modules, and single projects. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { valueAt } from '../../../util/untrusted-json.ts'
import type { Candidate, Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath } from '../../file-tree.ts'
import type { Finding, FoundCommand, Verb } from '../finding.ts'
import { findLine, linesIn } from '../project-files/find-lines.ts'
import { ownFiles } from '../project-files/ignored-directories.ts'
import { evidenceIn, shortQuote } from '../project-files/parsed-file.ts'
import { MOST_FINDINGS, MOST_PARTS, nearestAbove, relativeTo } from '../project-files/paths.ts'
import { elements, elementText } from '../project-files/xml-file.ts'
import {
  activePlugins,
  type Pom,
  type PropertyValue,
  parentsOf,
  pluginsOf,
  propertyOf,
  reactorOf,
  resolveProperties,
} from './maven-pom.ts'
import { mavenSetup } from './maven-setup.ts'
import { javaCandidates, javaFiles } from './versions.ts'

interface Reactor {
  readonly directory: string
  readonly root: Pom
  /** The root first. */
  readonly poms: readonly Pom[]
  readonly evidence: Evidence
  readonly notes: readonly string[]
}

const PROPERTIES = [
  'maven.compiler.release',
  'maven.compiler.target',
  'maven.compiler.source',
  'java.version',
  'jdk.version',
  'kotlin.compiler.jvmTarget',
]

export function detectMaven(tree: FileTree): readonly Finding[] {
  const taken = new Set<string>()
  const reactors: Reactor[] = []
  for (const file of ownFiles(tree.named('pom.xml'))) {
    if (taken.has(file) || reactors.length >= MOST_PARTS) continue
    const notes: string[] = []
    const poms = reactorOf(tree, file, notes)
    for (const pom of poms) taken.add(pom.file)
    const [root] = poms
    if (root) reactors.push({ directory: directoryOf(file), root, poms, evidence: evidenceOf(root), notes })
  }
  return reactors
    .filter((one) => !reactors.some((other) => isPartOf(one, other)))
    .slice(0, MOST_FINDINGS)
    .map((reactor) => findingOf(tree, reactor))
}

/** A reactor may be a sibling of its modules and so be found after one of them. */
function isPartOf(one: Reactor, other: Reactor): boolean {
  const holds = (reactor: Reactor, root: Pom): boolean => reactor.poms.some(({ file }) => file === root.file)
  return other !== one && holds(other, one.root) && !holds(one, other.root)
}

function evidenceOf(root: Pom): Evidence {
  const name = nameOf(root)
  const said = name === undefined ? 'a project of Maven' : `<artifactId>${name}`
  return evidenceIn(
    root.file,
    root.text,
    name === undefined ? ['<project'] : ['<project', `<artifactId>${name}`],
    said,
  )
}

function nameOf(pom: Pom): string | undefined {
  return elementText(valueAt(pom.project, 'artifactId'))
}

function findingOf(tree: FileTree, reactor: Reactor): Finding {
  const { directory, root, poms, evidence } = reactor
  const notes = [...reactor.notes, ...wrapperNotes(tree, directory)]
  const kotlin = poms.some((pom) => pluginsOf(pom).some(({ name }) => name === 'kotlin-maven-plugin'))
  const hasKotlin = kotlin || tree.below(directory).some((path) => path.includes('src/main/kotlin/'))
  const server = serverOf(reactor)
  return {
    language: hasKotlin ? 'kotlin' : 'java',
    directory,
    evidence,
    versions: [...javaFiles(tree, directory), ...versionsOf(tree, reactor)],
    manager: { name: 'maven', evidence, beat: [] },
    tools: [{ name: 'maven', evidence }],
    inputs: inputsOf(tree, reactor),
    commands: commandsOf(tree, reactor, server),
    packages: [],
    generated: poms.map((pom) => joinPath(pom.directory, 'target')),
    presets: ['maven'],
    ...(server && { ports: [{ port: 8080, evidence: server.evidence }] }),
    ...(poms.length > 1 && {
      members: poms.flatMap((pom) => (pom === root ? [] : [nameOf(pom) ?? pom.directory])),
    }),
    ...(notes.length > 0 && { notes: [...new Set(notes)] }),
  }
}

/** The wrapper fetches Maven from another host, so the installed Maven is used. */
function wrapperNotes(tree: FileTree, directory: string): readonly string[] {
  const file = nearestAbove(tree, directory, ['.mvn/wrapper/maven-wrapper.properties'])
  if (file === undefined && !tree.has(joinPath(directory, 'mvnw'))) return []
  const found = file
    ? findLine(linesIn(tree, file), /^distributionUrl[ \t]*=.*apache-maven-(\d[\w.]{0,30}?)-bin/)
    : undefined
  const wanted = found
    ? `mvnw would fetch Maven ${shortQuote(found.match[1] ?? '')}`
    : 'mvnw would fetch its own Maven'
  return [`${wanted}: the installed Maven is used instead`]
}

function versionsOf(tree: FileTree, { poms }: Reactor): readonly Candidate[] {
  const all = [...new Set(poms.flatMap((pom) => [pom, ...parentsOf(tree, pom)]))]
  const stated = all.flatMap((pom): readonly PropertyValue[] => [
    ...PROPERTIES.flatMap((name) => propertyOf(tree, pom, name) ?? []),
    ...pluginsOf(pom).flatMap(({ name, configuration }) => {
      if (name === 'maven-compiler-plugin' || name === 'kotlin-maven-plugin')
        return ['release', 'target', 'source', 'jvmTarget'].flatMap((key) =>
          configured(tree, pom, name, key, valueAt(configuration, key)),
        )
      if (name === 'maven-toolchains-plugin')
        return configured(tree, pom, name, 'version', valueAt(configuration, 'toolchains', 'jdk', 'version'))
      return []
    }),
  ])
  return [...javaCandidates(stated), ...all.flatMap((pom) => enforced(tree, pom))]
}

function configured(
  tree: FileTree,
  pom: Pom,
  plugin: string,
  key: string,
  value: unknown,
): readonly PropertyValue[] {
  const written = elementText(value)
  const text = written === undefined ? undefined : resolveProperties(tree, pom, written)
  if (text === undefined) return []
  return [{ text, evidence: evidenceIn(pom.file, pom.text, [plugin, `<${key}>`], `<${key}>${written}`) }]
}

/** The version that the enforcer plugin requires: `17` and `[17,)` both mean at least 17. */
function enforced(tree: FileTree, pom: Pom): readonly Candidate[] {
  return pluginsOf(pom)
    .filter(({ name }) => name === 'maven-enforcer-plugin')
    .flatMap(({ configuration }) =>
      elements(valueAt(configuration, 'rules', 'requireJavaVersion', 'version')),
    )
    .flatMap((written): readonly Candidate[] => {
      const text = resolveProperties(tree, pom, elementText(written) ?? '')
      const least = /^[[(]?(?:1\.)?(\d{1,3})/.exec(text ?? '')?.[1]
      if (least === undefined) return []
      const evidence = evidenceIn(
        pom.file,
        pom.text,
        ['<requireJavaVersion>', '<version>'],
        `requireJavaVersion ${text}`,
      )
      return [{ value: `>=${least}`, rank: 'range', evidence }]
    })
}

/** Also includes parents outside the reactor, and the files in `.mvn`. */
function inputsOf(tree: FileTree, { directory, poms }: Reactor): readonly string[] {
  const parents = poms.flatMap((pom) => parentsOf(tree, pom))
  const settings = tree
    .below(joinPath(directory, '.mvn'))
    .filter((path) => !path.endsWith('.jar') && !path.includes('/wrapper/'))
  return [...new Set([...[...poms, ...parents].map(({ file }) => file), ...settings.slice(0, MOST_PARTS)])]
}

interface Server {
  readonly goal: string
  readonly pom: Pom
  readonly evidence: Evidence
}

const SERVERS: readonly (readonly [plugin: string, goal: string])[] = [
  ['spring-boot-maven-plugin', 'spring-boot:run'],
  ['quarkus-maven-plugin', 'quarkus:dev'],
  ['micronaut-maven-plugin', 'mn:run'],
  ['jetty-maven-plugin', 'jetty:run'],
]

/** The only module that can be served. */
function serverOf({ poms }: Reactor): Server | undefined {
  const found = poms.flatMap((pom) => {
    const plugins = activePlugins(pom)
    const known = SERVERS.find(([plugin]) => plugins.includes(plugin))
    if (!known || elementText(valueAt(pom.project, 'packaging')) === 'pom') return []
    return [{ goal: known[1], pom, evidence: evidenceIn(pom.file, pom.text, [known[0]], known[0]) }]
  })
  return found.length === 1 ? found[0] : undefined
}

function commandsOf(
  tree: FileTree,
  reactor: Reactor,
  server: Server | undefined,
): Partial<Record<Verb, FoundCommand>> {
  const { directory, poms, evidence } = reactor
  const plugins = poms.flatMap(pluginsOf)
  const start = server
    ? { run: started(tree, reactor, server), evidence: server.evidence }
    : programOf(tree, reactor)
  const lint = [
    ['spotless-maven-plugin', 'spotless:check'],
    ['maven-checkstyle-plugin', 'checkstyle:check'],
    ['maven-pmd-plugin', 'pmd:check'],
  ].flatMap(([name, goal]) => {
    const plugin = plugins.find((one) => one.name === name)
    if (!plugin || !name) return []
    return [{ run: `mvn -B ${goal}`, evidence: evidenceIn(plugin.pom.file, plugin.pom.text, [name], name) }]
  })[0]
  return {
    setup: { run: mavenSetup(tree, directory, poms), evidence },
    ...(server && { dev: { run: servedBy(reactor, server), evidence: server.evidence } }),
    test: { run: 'mvn -B test', evidence },
    ...(lint && { lint }),
    build: { run: 'mvn -B -DskipTests package', evidence },
    ...(start && { start }),
  }
}

/** A goal for one module finds the others only if they are installed. */
function servedBy({ directory, poms, root }: Reactor, { goal, pom }: Server): string {
  if (poms.length === 1 || pom === root) return `mvn -B ${goal}`
  const module = shellWord(relativeTo(directory, pom.directory))
  return `mvn -B -q -DskipTests install && mvn -B -pl ${module} ${goal}`
}

/** Plugins that make runnable archives, with the suffix of the archive's name. */
const RUNNABLE: readonly (readonly [plugin: string, ending: string])[] = [
  ['maven-assembly-plugin', '-jar-with-dependencies'],
  ['maven-shade-plugin', ''],
  ['maven-jar-plugin', ''],
]

/** The only module whose archive has a main class. */
function programOf(tree: FileTree, reactor: Reactor): FoundCommand | undefined {
  const found = reactor.poms.flatMap((pom): FoundCommand[] => {
    const plugins = pluginsOf(pom).filter((plugin) => plugin.pom === pom)
    const known = RUNNABLE.find(([name]) =>
      plugins.some((one) => one.name === name && /<mainClass>/i.test(pom.text)),
    )
    if (!known) return []
    const [plugin, ending] = known
    const run = withArchive(tree, reactor, pom, ending)
    return run === undefined ? [] : [{ run, evidence: evidenceIn(pom.file, pom.text, [plugin], plugin) }]
  })
  return found.length === 1 ? found[0] : undefined
}

function started(tree: FileTree, reactor: Reactor, server: Server): string {
  const { pom, goal } = server
  if (goal === 'quarkus:dev') {
    const module = relativeTo(reactor.directory, pom.directory)
    const target = module === '.' ? 'target' : `${module}/target`
    return `mvn -B -DskipTests package && java -jar ${shellWord(`${target}/quarkus-app/quarkus-run.jar`)}`
  }
  const archive = goal === 'jetty:run' ? undefined : withArchive(tree, reactor, pom, '')
  return archive ?? servedBy(reactor, server)
}

/** Undefined if the archive's name is not known. */
function withArchive(tree: FileTree, reactor: Reactor, pom: Pom, ending: string): string | undefined {
  const chosen = elementText(valueAt(pom.project, 'build', 'finalName'))
  const version = elementText(valueAt(pom.project, 'version') ?? valueAt(pom.project, 'parent', 'version'))
  const name = resolveProperties(tree, pom, chosen ?? `${nameOf(pom)}-${version}`)
  if (name === undefined || !/^[\w.-]+$/.test(name)) return undefined
  const module = relativeTo(reactor.directory, pom.directory)
  const jar = `${module === '.' ? '' : `${module}/`}target/${name}${ending}.jar`
  return `mvn -B -DskipTests package && java -jar ${shellWord(jar)}`
}
