/** Gradle: builds of one project or many. */

import { shellWord } from '../../../util/shell/shell-word.ts'
import { objectAt } from '../../../util/untrusted-json.ts'
import type { Candidate, Evidence } from '../../evidence.ts'
import { directoryOf, type FileTree, joinPath, nameOf } from '../../file-tree.ts'
import type { Finding, FoundCommand, Verb } from '../finding.ts'
import {
  evidenceAt,
  type FileLine,
  findLine,
  findLines,
  linesIn,
  linesOf,
} from '../project-files/find-lines.ts'
import { isVendoredOrBuilt } from '../project-files/ignored-directories.ts'
import { readTextFile, readTomlFile, textAt } from '../project-files/parsed-file.ts'
import { isWithin, MOST_FINDINGS, relativeTo } from '../project-files/paths.ts'
import { type GradleBuild, gradleBuilds, withoutComments } from './gradle-build.ts'
import { javaCandidates, javaFiles } from './versions.ts'

const MOST_INPUTS = 2000

/** How builds state their Java version. */
const PATTERNS: readonly RegExp[] = [
  /\bJavaLanguageVersion\.of\([ \t]*["']?(\d{1,3})/,
  /\bjvmToolchain\([ \t]*(\d{1,3})/,
  /\b(?:source|target)Compatibility[ \t]*=?[ \t]*\(?[ \t]*["']?(?:JavaVersion\.VERSION_)?(\d{1,2}(?:[._]\d{1,2})?)/,
  /\bjvmTarget(?:\.set)?[ \t]*[=(][ \t]*["']?(?:JvmTarget\.JVM_)?(\d{1,2}(?:[._]\d{1,2})?)/,
  /\boptions\.release(?:\.set)?[ \t]*[=(]?[ \t]*(\d{1,2})\b/,
]

/** The newest Java that a Gradle runs on, by the first version that does. */
const NEWEST_JAVA: readonly (readonly [gradle: string, java: number])[] = [
  ['9.1', 25],
  ['8.14', 24],
  ['8.10', 23],
  ['8.8', 22],
  ['8.5', 21],
  ['8.3', 20],
  ['7.6', 19],
  ['7.5', 18],
  ['7.3', 17],
  ['7.0', 16],
  ['6.7', 15],
  ['6.3', 14],
  ['6.0', 13],
  ['5.4', 12],
  ['5.0', 11],
  ['4.7', 10],
  ['4.3', 9],
  ['2.0', 8],
]

interface Wrapper {
  readonly version: string | undefined
  readonly host: string | undefined
  readonly evidence: Evidence
  /** Whether all of it is there. */
  readonly isWhole: boolean
}

export function detectGradle(tree: FileTree): readonly Finding[] {
  return gradleBuilds(tree)
    .slice(0, MOST_FINDINGS)
    .map((build) => findingOf(tree, build))
}

function findingOf(tree: FileTree, build: GradleBuild): Finding {
  const { directory, evidence, projects } = build
  const wrapper = wrapperOf(tree, directory)
  const lines = linesOfBuild(tree, build)
  const run = wrapper?.isWhole ? './gradlew' : 'gradle'
  const hasKotlin = tree.below(directory).some((path) => path.includes('src/main/kotlin/'))
  const isKotlin =
    hasKotlin ||
    says(lines, /kotlin\(["'](?:jvm|multiplatform|android)["']|org\.jetbrains\.kotlin\./) !== undefined
  const program = programOf(lines)
  const server = program?.isServer ? program : undefined
  const lockfile = [joinPath(directory, 'gradle.lockfile')].find((path) => tree.has(path))
  return {
    language: isKotlin ? 'kotlin' : 'java',
    directory,
    evidence,
    versions: [...javaFiles(tree, directory), ...versionsOf(tree, build, lines), ...newestJava(wrapper)],
    manager: { name: 'gradle', evidence, beat: [] },
    tools: wrapper?.isWhole
      ? []
      : [{ name: 'gradle', ...(wrapper?.version && { version: wrapper.version }), evidence }],
    ...(lockfile && { lockfile }),
    inputs: inputsOf(tree, build),
    commands: commandsOf(tree, build, run, program),
    packages: [],
    generated: [...projects.map((one) => joinPath(one.directory, 'build')), joinPath(directory, '.gradle')],
    presets: ['maven'],
    ...(server && { ports: [{ port: 8080, evidence: server.evidence }] }),
    ...(projects.length > 1 && { members: projects.slice(1).map(({ name }) => name) }),
    notes: notesOf(build, wrapper, lines),
  }
}

function notesOf(
  build: GradleBuild,
  wrapper: Wrapper | undefined,
  lines: readonly InFile[],
): readonly string[] {
  const notes = [...build.notes, 'Gradle fetches plugins from its own portal: allow that host']
  if (wrapper?.isWhole) {
    const what = wrapper.version ? `Gradle ${wrapper.version}` : 'a Gradle'
    notes.push(`gradlew fetches ${what} from ${wrapper.host ?? 'its own host'}: allow that host`)
  } else if (wrapper) notes.push('the Gradle wrapper is incomplete, so the installed Gradle is used')
  if (says(lines, /com\.android\.(?:application|library)/))
    notes.push('the project needs an Android SDK, which is not installed')
  return notes
}

function wrapperOf(tree: FileTree, directory: string): Wrapper | undefined {
  const file = joinPath(directory, 'gradle/wrapper/gradle-wrapper.properties')
  const hasScript = tree.has(joinPath(directory, 'gradlew'))
  if (!tree.has(file) && !hasScript) return undefined
  const found = findLine(linesIn(tree, file), /^[ \t]*distributionUrl[ \t]*=[ \t]*(\S{1,500})/)
  const url = found?.match[1]?.replaceAll('\\', '') ?? ''
  return {
    version: /gradle-(\d{1,3}(?:\.\d{1,3}){1,2})/.exec(url)?.[1],
    host: /^https?:\/\/(?:[^@/]{1,100}@)?([\w.-]{1,100})/.exec(url)?.[1],
    evidence: evidenceAt(file, found?.line, found?.match[0] ?? nameOf(file)),
    isWhole:
      hasScript && tree.has(file) && tree.has(joinPath(directory, 'gradle/wrapper/gradle-wrapper.jar')),
  }
}

interface InFile extends FileLine {
  readonly file: string
}

function linesOfBuild(tree: FileTree, { projects }: GradleBuild): readonly InFile[] {
  return projects.flatMap(({ file }) => {
    const text = file === undefined ? undefined : readTextFile(tree, file)
    if (file === undefined || text === undefined) return []
    return linesOf(withoutComments(text)).map((line) => ({ ...line, file }))
  })
}

function says(lines: readonly InFile[], pattern: RegExp): { readonly evidence: Evidence } | undefined {
  const found = lines.find(({ text }) => pattern.test(text))
  return found ? { evidence: evidenceAt(found.file, found.number, found.text) } : undefined
}

function versionsOf(
  tree: FileTree,
  { directory }: GradleBuild,
  lines: readonly InFile[],
): readonly Candidate[] {
  const written = lines.flatMap(({ text, number, file }) =>
    PATTERNS.flatMap((pattern) => {
      const value = pattern.exec(text)?.[1]?.replace('_', '.')
      return value === undefined ? [] : [{ text: value, evidence: evidenceAt(file, number, text) }]
    }),
  )
  return javaCandidates([...written, ...catalogued(tree, directory), ...properties(tree, directory)])
}

/** Names under which versions of Java are kept for builds to refer to. */
const VERSION_KEY = /^(?:java|jdk|jvm)(?:[-_.]?(?:version|target|toolchain|release))?$/i

function catalogued(tree: FileTree, directory: string) {
  const file = joinPath(directory, 'gradle/libs.versions.toml')
  const versions = objectAt(readTomlFile(tree, file)?.data, 'versions')
  return Object.keys(versions).flatMap((key) => {
    const text = VERSION_KEY.test(key) ? textAt(versions, key) : undefined
    if (text === undefined) return []
    const line = findLine(linesIn(tree, file), new RegExp(`^[ \\t]*${RegExp.escape(key)}[ \\t]*=`))?.line
    return [{ text, evidence: evidenceAt(file, line, `${key} = "${text}"`) }]
  })
}

function properties(tree: FileTree, directory: string) {
  const file = joinPath(directory, 'gradle.properties')
  return findLines(linesIn(tree, file), /^[ \t]*([\w.-]{1,60})[ \t]*=[ \t]*(\d[\d.]{0,10})[ \t]*$/).flatMap(
    ({ match, line }) =>
      VERSION_KEY.test(match[1] ?? '')
        ? [{ text: match[2] ?? '', evidence: evidenceAt(file, line, match[0]) }]
        : [],
  )
}

function newestJava(wrapper: Wrapper | undefined): readonly Candidate[] {
  if (!wrapper?.version) return []
  const [major = 0, minor = 0] = wrapper.version.split('.').map(Number)
  const known = NEWEST_JAVA.find(([since]) => {
    const [sinceMajor = 0, sinceMinor = 0] = since.split('.').map(Number)
    return major > sinceMajor || (major === sinceMajor && minor >= sinceMinor)
  })
  // Gradle versions newer than those in the table may support more.
  if (!known || known === NEWEST_JAVA[0]) return []
  return [{ value: `<=${known[1]}`, rank: 'range', evidence: wrapper.evidence }]
}

/**
 * Every configuration file, and all files of included builds, whose sources are part of the configuration.
 */
function inputsOf(tree: FileTree, { directory, included }: GradleBuild): readonly string[] {
  const whole = [joinPath(directory, 'buildSrc'), ...included].filter((one) => one !== directory)
  const found = tree.files.filter((path) => {
    if (!isWithin(path, directory) && !included.some((one) => isWithin(path, one))) return false
    if (isVendoredOrBuilt(path)) return false
    if (whole.some((one) => isWithin(path, one))) return true
    return (
      /(?:^|\/)(?:[^/]+\.gradle(?:\.kts)?|gradle\.properties|gradle\.lockfile|gradlew)$/.test(path) ||
      path.startsWith(`${joinPath(directory, 'gradle')}/`)
    )
  })
  return found.slice(0, MOST_INPUTS)
}

function commandsOf(
  tree: FileTree,
  build: GradleBuild,
  gradle: string,
  program: Program | undefined,
): Partial<Record<Verb, FoundCommand>> {
  const { directory, evidence } = build
  const dev = program?.kind.run && {
    run: `${gradle} ${program.kind.run}`,
    evidence: program.evidence,
  }
  const start = program && { run: startOf(build, gradle, program), evidence: program.evidence }
  return {
    setup: { run: setupOf(tree, directory, gradle), evidence },
    ...(dev && { dev }),
    test: { run: `${gradle} test`, evidence },
    lint: { run: `${gradle} check -x test`, evidence },
    build: { run: `${gradle} assemble`, evidence },
    ...(start && { start }),
  }
}

/** How to run a build, by its plugin; more specific ones first. */
interface ProgramKind {
  readonly plugin: RegExp
  readonly isServer: boolean
  /** The task that runs it from its sources. */
  readonly run?: string
  /** The task that makes an archive, and which one, below `build`. */
  readonly archive?: readonly [task: string, file: string]
}

const PROGRAMS: readonly ProgramKind[] = [
  {
    plugin: /org\.springframework\.boot/,
    isServer: true,
    run: 'bootRun',
    archive: ['bootJar', 'libs/*.jar'],
  },
  {
    plugin: /\bid[ (]+["']io\.quarkus/,
    isServer: true,
    run: 'quarkusDev',
    archive: ['quarkusBuild', 'quarkus-app/quarkus-run.jar'],
  },
  { plugin: /io\.micronaut\.application/, isServer: true, run: 'run' },
  {
    plugin: /io\.ktor\.plugin|ktor\b.*plugin/,
    isServer: true,
    run: 'run',
    archive: ['buildFatJar', 'libs/*-all.jar'],
  },
  {
    plugin: /com\.(?:github\.johnrengelman|gradleup)\.shadow/,
    isServer: false,
    archive: ['shadowJar', 'libs/*-all.jar'],
  },
  {
    plugin: /^[ \t]*(?:id[ (]+["'])?application(?:["'])?\)?[ \t]*$|["']application["']|`application`/,
    isServer: false,
    run: 'run',
  },
  { plugin: /["']?Main-Class["']?/, isServer: false, archive: ['jar', 'libs/*.jar'] },
]

interface Program {
  readonly kind: ProgramKind
  readonly isServer: boolean
  readonly evidence: Evidence
}

function programOf(lines: readonly InFile[]): Program | undefined {
  for (const kind of PROGRAMS) {
    const found = says(lines, kind.plugin)
    if (found) return { kind, isServer: kind.isServer, evidence: found.evidence }
  }
  return undefined
}

/** The archive's name contains a version, and there is another archive without the dependencies. */
function startOf({ directory }: GradleBuild, gradle: string, { kind, evidence }: Program): string {
  if (!kind.archive) return `${gradle} ${kind.run}`
  const [task, file] = kind.archive
  const project = relativeTo(directory, directoryOf(evidence.file))
  const from = `${project === '.' ? '' : `${shellWord(project)}/`}build/${file}`
  const jar = file.includes('*')
    ? `"$(ls ${from} | grep -v -e -plain.jar -e -sources.jar | head -n 1)"`
    : from
  return `${gradle} ${task} && java -jar ${jar}`
}

/**
 * The task `dependencies` only shows what would be fetched, and only for the root, so every configuration is
 * asked for its files. Uses only features that Gradle has had since version 4.
 */
const RESOLVING = [
  'allprojects { one ->',
  '  one.tasks.create("agentpodResolve") {',
  '    doLast {',
  '      [one.configurations, one.buildscript.configurations].each { all ->',
  '        all.findAll { it.canBeResolved }.each { it.incoming.artifactView { view -> view.lenient(true) }.files.files }',
  '      }',
  '    }',
  '  }',
  '}',
]

function setupOf(tree: FileTree, directory: string, gradle: string): string {
  const settings = linesIn(tree, joinPath(directory, 'gradle.properties'))
  const isCached = findLine(
    settings,
    /^[ \t]*org\.gradle\.(?:unsafe\.)?configuration-cache[ \t]*=[ \t]*(?:true|on)/,
  )
  const flags = isCached ? ' --no-configuration-cache' : ''
  const script = RESOLVING.map((line) => shellWord(line)).join(' ')
  return [
    '(',
    'scratch=$(mktemp -d)',
    `printf '%s\\n' ${script} > "$scratch/resolve.gradle"`,
    `${gradle} --no-daemon -I "$scratch/resolve.gradle"${flags} agentpodResolve`,
    'status=$?',
    'rm -rf "$scratch"',
    'exit $status',
    ')',
  ].join('\n')
}
