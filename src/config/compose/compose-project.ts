/** Reads compose files, in their order, as one project. Of the machine, only the given files are read. */
import { invalid } from '../../core/error.ts'
import { MOST_ALIASES } from '../../core/group/group.ts'
import { nearest } from '../../util/nearest.ts'
import type { Evidence } from '../evidence.ts'
import { directoryOf, joinPath } from '../file-tree.ts'
import type { Path } from '../toml/positions.ts'
import { type Problem, problemsError, quoted, type Remark } from '../toml/problem.ts'
import { schemaRemarks } from '../toml/schema-problems.ts'
import { interpolate } from './interpolate.ts'
import { memberName } from './member-plan.ts'
import type { ComposeMount, ComposeProject, ComposeService } from './model.ts'
import { type ComposeTable, composeSchema } from './schema.ts'
import { readEnvFile, readService, type ServicePart } from './service.ts'
import { readYaml, type YamlDocument } from './yaml-document.ts'

export interface ComposeSources {
  /** Relative to the project; later files override earlier ones. */
  readonly files: readonly string[]
  /** The text of a file of the project. */
  read(file: string): string | undefined
  readonly profiles?: readonly string[] | undefined
  /**
   * The absolute path of the project. With it, a mount of a directory above the project is a mount of the
   * project at its place in that directory.
   */
  readonly directory?: string | undefined
}

const NAMES = ['compose.yaml', 'compose.yml', 'docker-compose.yaml', 'docker-compose.yml']
const MOST_FILES = 16
const SERVICE_NAME = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$/
const MOST_SERVICES = 32
/** Of all values together: a long variable may be in each of them. */
const LONGEST_VALUES = 4 * 1024 * 1024

/** The files that `docker compose` would use in a directory: the first of its names, and its override. */
export function composeFilesIn(directory: string, has: (file: string) => boolean): string[] {
  const found = NAMES.map((name) => joinPath(directory, name)).find(has)
  if (found === undefined) return []
  const override = found.replace(/\.(ya?ml)$/, '.override.$1')
  return [found, ...[override].filter(has)]
}

interface ReadFile {
  readonly document: YamlDocument
  readonly table: ComposeTable
  readonly parts: ReadonlyMap<string, ServicePart>
  readonly notes: readonly Evidence[]
}

/**
 * Throws one error with the file, line and column of every problem. SECURITY: CF-02. Variables come from the
 * project's .env file, never from the environment of the user: a file could otherwise read their secrets.
 */
export function readCompose(sources: ComposeSources): ComposeProject {
  const [first] = sources.files
  if (first === undefined || sources.files.length > MOST_FILES)
    throw invalid('compose.files', `a project has 1 to ${MOST_FILES} compose files`)
  const directory = directoryOf(first)
  const env = readEnvFile(sources.read(joinPath(directory, '.env')) ?? '')
  const files = sources.files.map((file) => readFile(sources, file, { directory, env }))
  const merged = mergeServices(files)
  const problems: Problem[] = []
  const all = [...merged.values()]
  problems.push(...checkServices(files, all))
  if (problems.length > 0) throw problemsError(problems)
  const active = activeServices(all, sources.profiles ?? [])
  const order = ordered(files, active)
  const taken = portTakenTwice(order)
  if (taken) throw problemsError([taken])
  return {
    files: [...sources.files],
    name: files.findLast(({ table }) => table.name !== undefined)?.table.name,
    services: order,
    inactive: all.filter((one) => !active.includes(one)).map(({ name }) => name),
    notes: files.flatMap(({ notes }) => notes),
  }
}

function readFile(
  sources: ComposeSources,
  file: string,
  { directory, env }: { readonly directory: string; readonly env: Readonly<Record<string, string>> },
): ReadFile {
  const text = sources.read(file)
  if (text === undefined)
    throw invalid('compose.missing', `there is no file ${file} that can be read as text`)
  const lookup = (name: string): string | undefined => (Object.hasOwn(env, name) ? env[name] : undefined)
  const unset = new Set<string>()
  let length = 0
  const document = readYaml({ file, text }, (scalar) => {
    const done = interpolate(scalar, lookup)
    for (const name of done.unset) unset.add(name)
    length += done.text.length
    if (length > LONGEST_VALUES) throw new Error('the values of the file are too long after their variables')
    return done.text
  })
  const result = composeSchema.safeParse(document.value, { reportInput: true })
  if (!result.success) throw problemsError(document.problems(schemaRemarks(result.error, composeSchema)))
  const table = result.data
  const remarks: Remark[] = []
  const notes: { path: Path; said: string }[] = []
  for (const key of ['include', 'models'] as const)
    if (table[key] !== undefined)
      remarks.push({
        path: [key],
        isKey: true,
        message: 'is not supported',
        hint: 'write its services into this file',
        reason: 'compose.unsupported',
      })
  const lineOf = (path: Path): number | undefined => document.at(path)?.line
  const context = {
    directory,
    table,
    lineOf,
    variable: lookup,
    read: sources.read.bind(sources),
    project: sources.directory,
    remarks,
    notes,
  }
  const parts = new Map<string, ServicePart>()
  for (const [name, service] of Object.entries(table.services ?? {})) {
    if (SERVICE_NAME.test(name)) parts.set(name, readService(context, name, service))
    else
      remarks.push({
        path: ['services', name],
        isKey: true,
        message: `${quoted(name)} is not the name of a service`,
      })
  }
  if (remarks.length > 0) throw problemsError(document.problems(remarks))
  return {
    document,
    table,
    parts,
    notes: [
      ...notes.map(({ path, said }) => ({ file, line: lineOf(path), said })),
      ...[...unset].map((name) => ({
        file,
        said: `the variable ${name} is not set in .env; it counts as empty`,
      })),
    ],
  }
}

function mergeServices(files: readonly ReadFile[]): Map<string, ComposeService> {
  const services = new Map<string, ComposeService>()
  for (const { document, parts } of files)
    for (const [name, part] of parts) {
      const before = services.get(name)
      const line = document.at(['services', name])?.line
      services.set(name, merged(before ?? emptyService(name, document.file, line), part))
    }
  return services
}

function emptyService(name: string, file: string, line: number | undefined): ComposeService {
  return {
    name,
    file,
    line,
    image: undefined,
    build: undefined,
    command: undefined,
    entrypoint: undefined,
    environment: {},
    ports: [],
    expose: [],
    mounts: [],
    files: [],
    dependsOn: [],
    healthcheck: undefined,
    workingDir: undefined,
    user: undefined,
    profiles: [],
    aliases: [],
    cpus: undefined,
    memoryMib: undefined,
    pids: undefined,
    stopSignal: undefined,
    stopMs: undefined,
  }
}

/** Tables are merged, lists appended, single values and commands replaced. */
function merged(before: ComposeService, part: ServicePart): ComposeService {
  const build = part.build ?? (before.build && { args: {} })
  const withKey = <T>(first: readonly T[], second: readonly T[], key: (one: T) => unknown): T[] => [
    ...new Map([...first, ...second].map((one) => [key(one), one])).values(),
  ]
  return {
    ...before,
    image: part.image ?? before.image,
    build: build && {
      context: build.context ?? before.build?.context ?? '',
      dockerfile: build.dockerfile ?? before.build?.dockerfile,
      args: { ...before.build?.args, ...build.args },
      target: build.target ?? before.build?.target,
    },
    command: part.command === undefined ? before.command : (part.command ?? undefined),
    entrypoint: part.entrypoint === undefined ? before.entrypoint : (part.entrypoint ?? undefined),
    environment: { ...before.environment, ...part.environment },
    ports: withKey(before.ports, part.ports, ({ target, published }) => `${published}:${target}`),
    expose: [...new Set([...before.expose, ...part.expose])],
    mounts: withKey<ComposeMount>(before.mounts, part.mounts, ({ target }) => target),
    files: withKey(before.files, part.files, ({ target }) => target),
    dependsOn: withKey(before.dependsOn, part.dependsOn, ({ service }) => service),
    healthcheck: part.healthcheck ?? before.healthcheck,
    workingDir: part.workingDir ?? before.workingDir,
    user: part.user ?? before.user,
    profiles: [...new Set([...before.profiles, ...part.profiles])],
    aliases: [...new Set([...before.aliases, ...part.aliases])],
    cpus: part.cpus ?? before.cpus,
    memoryMib: part.memoryMib ?? before.memoryMib,
    pids: part.pids ?? before.pids,
    stopSignal: part.stopSignal ?? before.stopSignal,
    stopMs: part.stopMs ?? before.stopMs,
  }
}

function checkServices(files: readonly ReadFile[], services: readonly ComposeService[]): Problem[] {
  const [firstFile] = files
  const known = services.map(({ name }) => name)
  const problems: Problem[] = []
  const problem = (service: ComposeService, line: number | undefined, message: string, hint?: string): void =>
    void problems.push({
      file: service.file,
      line: line ?? service.line,
      column: 1,
      path: `services.${service.name}`,
      message: `services.${service.name}: ${message}`,
      hint,
      reason: 'compose.service',
    })
  if (services.length === 0 || services.length > MOST_SERVICES)
    problems.push({
      file: firstFile?.document.file ?? '',
      line: 1,
      column: 1,
      path: '',
      message: services.length === 0 ? 'has no services' : `has more than ${MOST_SERVICES} services`,
      reason: 'compose.service',
    })
  const hosts = new Map<string, string>()
  for (const service of services) {
    const host = memberName(service.name)
    const other = hosts.get(host)
    if (other !== undefined)
      problem(service, undefined, `has the host name ${host}, as ${other} has`, 'rename one of the services')
    hosts.set(host, service.name)
    if (service.aliases.length > MOST_ALIASES)
      problem(service, undefined, `has more than ${MOST_ALIASES} aliases`, 'remove some of them')
    if (service.image === undefined && !service.build)
      problem(service, undefined, 'has neither image nor build')
    for (const { service: other, line, isRequired } of service.dependsOn) {
      if (known.includes(other) || !isRequired) continue
      const near = nearest(other, known)
      problem(
        service,
        line,
        `depends on ${quoted(other)}, which is no service`,
        near && `did you mean ${near}?`,
      )
    }
  }
  return problems
}

/** Services without profiles, those of an active profile, and what these require. */
function activeServices(services: readonly ComposeService[], profiles: readonly string[]): ComposeService[] {
  const isActive = ({ profiles: own }: ComposeService): boolean =>
    own.length === 0 || profiles.includes('*') || own.some((one) => profiles.includes(one))
  const active = new Set(services.filter(isActive))
  for (const service of active)
    for (const { service: name, isRequired } of service.dependsOn) {
      const other = services.find((one) => one.name === name)
      if (other && isRequired) active.add(other)
    }
  return services.filter((one) => active.has(one))
}

function ordered(files: readonly ReadFile[], services: readonly ComposeService[]): ComposeService[] {
  const done: ComposeService[] = []
  const visit = (service: ComposeService, path: readonly string[]): void => {
    if (done.includes(service)) return
    for (const { service: name, line } of service.dependsOn) {
      const other = services.find((one) => one.name === name)
      if (!other) continue
      const trail = [...path, service.name]
      if (trail.includes(name))
        throw problemsError([
          {
            file: files[0]?.document.file ?? service.file,
            line: line ?? service.line,
            column: 1,
            path: `services.${service.name}.depends_on`,
            message: `services wait for each other: ${[...trail.slice(trail.indexOf(name)), name].join(' → ')}`,
            hint: 'remove one of these dependencies',
            reason: 'compose.cycle',
          },
        ])
      visit(other, trail)
    }
    done.push(service)
  }
  for (const service of services) visit(service, [])
  return done
}

function portTakenTwice(services: readonly ComposeService[]): Problem | undefined {
  const taken = new Map<number, ComposeService>()
  for (const service of services)
    for (const { published, line } of service.ports) {
      if (published === undefined) continue
      const other = taken.get(published)
      if (other)
        return {
          file: service.file,
          line: line ?? service.line,
          column: 1,
          path: `services.${service.name}.ports`,
          message: `services.${service.name}.ports: the port ${published} is taken by ${other.name} already`,
          hint: 'publish it under another port',
          reason: 'compose.port',
        }
      taken.set(published, service)
    }
  return undefined
}
