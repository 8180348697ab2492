/** Maven: reactors of modules, and single projects. */

import { shellWord } from '../../util/shell-word.ts'
import type { Candidate, Evidence } from '../evidence.ts'
import { directoryOf, type FileTree, within } from '../tree.ts'
import { worthwhile } from './aside.ts'
import type { Finding, FoundCommand, Verb } from './finding.ts'
import { javaCandidates, javaFiles } from './java-version.ts'
import {
  activePlugins,
  type Pom,
  parentsOf,
  pluginsOf,
  propertyOf,
  reactorOf,
  resolved,
  type Value,
} from './maven-pom.ts'
import { mavenSetup } from './maven-setup.ts'
import { MOST_FINDINGS, MOST_PARTS, nearestAbove, relativeTo } from './place.ts'
import { at, evidenceIn, short } from './reading.ts'
import { linesIn, seek } from './seek.ts'
import { elementText, many } from './xml-file.ts'

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
  for (const file of worthwhile(tree.named('pom.xml'))) {
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

/** A reactor may lie beside its modules and so be found after one of them. */
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
  return elementText(at(pom.project, 'artifactId'))
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
    generated: poms.map((pom) => within(pom.directory, 'target')),
    presets: ['maven'],
    ...(server && { ports: [{ port: 8080, evidence: server.evidence }] }),
    ...(poms.length > 1 && {
      members: poms.flatMap((pom) => (pom === root ? [] : [nameOf(pom) ?? pom.directory])),
    }),
    ...(notes.length > 0 && { notes: [...new Set(notes)] }),
  }
}

/** The wrapper fetches Maven from a host of its own, so the Maven that is there is used. */
function wrapperNotes(tree: FileTree, directory: string): readonly string[] {
  const file = nearestAbove(tree, directory, ['.mvn/wrapper/maven-wrapper.properties'])
  if (file === undefined && !tree.has(within(directory, 'mvnw'))) return []
  const found = file
    ? seek(linesIn(tree, file), /^distributionUrl[ \t]*=.*apache-maven-(\d[\w.]{0,30}?)-bin/)
    : undefined
  const wanted = found
    ? `mvnw would fetch Maven ${short(found.match[1] ?? '')}`
    : 'mvnw would fetch a Maven of its own'
  return [`${wanted}: the one that is installed is used instead`]
}

function versionsOf(tree: FileTree, { poms }: Reactor): readonly Candidate[] {
  const all = [...new Set(poms.flatMap((pom) => [pom, ...parentsOf(tree, pom)]))]
  const stated = all.flatMap((pom): readonly Value[] => [
    ...PROPERTIES.flatMap((name) => propertyOf(tree, pom, name) ?? []),
    ...pluginsOf(pom).flatMap(({ name, configuration }) => {
      if (name === 'maven-compiler-plugin' || name === 'kotlin-maven-plugin')
        return ['release', 'target', 'source', 'jvmTarget'].flatMap((key) =>
          configured(tree, pom, name, key, at(configuration, key)),
        )
      if (name === 'maven-toolchains-plugin')
        return configured(tree, pom, name, 'version', at(configuration, 'toolchains', 'jdk', 'version'))
      return []
    }),
  ])
  return [...javaCandidates(stated), ...all.flatMap((pom) => enforced(tree, pom))]
}

function configured(tree: FileTree, pom: Pom, plugin: string, key: string, value: unknown): readonly Value[] {
  const written = elementText(value)
  const text = written === undefined ? undefined : resolved(tree, pom, written)
  if (text === undefined) return []
  return [{ text, evidence: evidenceIn(pom.file, pom.text, [plugin, `<${key}>`], `<${key}>${written}`) }]
}

/** What the enforcer insists upon: `17` and `[17,)` are both the least that will do. */
function enforced(tree: FileTree, pom: Pom): readonly Candidate[] {
  return pluginsOf(pom)
    .filter(({ name }) => name === 'maven-enforcer-plugin')
    .flatMap(({ configuration }) => many(at(configuration, 'rules', 'requireJavaVersion', 'version')))
    .flatMap((written): readonly Candidate[] => {
      const text = resolved(tree, pom, elementText(written) ?? '')
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

/** Parents outside of the reactor are read as well, and so is what Maven is told in `.mvn`. */
function inputsOf(tree: FileTree, { directory, poms }: Reactor): readonly string[] {
  const parents = poms.flatMap((pom) => parentsOf(tree, pom))
  const settings = tree
    .below(within(directory, '.mvn'))
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
    if (!known || elementText(at(pom.project, 'packaging')) === 'pom') return []
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

/** A goal for one module finds the others only where they are installed. */
function servedBy({ directory, poms, root }: Reactor, { goal, pom }: Server): string {
  if (poms.length === 1 || pom === root) return `mvn -B ${goal}`
  const module = shellWord(relativeTo(directory, pom.directory))
  return `mvn -B -q -DskipTests install && mvn -B -pl ${module} ${goal}`
}

/** Plugins whose archive can be run, with what its name ends in. */
const RUNNABLE: readonly (readonly [plugin: string, ending: string])[] = [
  ['maven-assembly-plugin', '-jar-with-dependencies'],
  ['maven-shade-plugin', ''],
  ['maven-jar-plugin', ''],
]

/** The only module whose archive names its main class. */
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

/** Undefined where the archive's name cannot be told. */
function withArchive(tree: FileTree, reactor: Reactor, pom: Pom, ending: string): string | undefined {
  const chosen = elementText(at(pom.project, 'build', 'finalName'))
  const version = elementText(at(pom.project, 'version') ?? at(pom.project, 'parent', 'version'))
  const name = resolved(tree, pom, chosen ?? `${nameOf(pom)}-${version}`)
  if (name === undefined || !/^[\w.-]+$/.test(name)) return undefined
  const module = relativeTo(reactor.directory, pom.directory)
  const jar = `${module === '.' ? '' : `${module}/`}target/${name}${ending}.jar`
  return `mvn -B -DskipTests package && java -jar ${shellWord(jar)}`
}
