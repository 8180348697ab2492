/** Reads compose files, in their order, as one project. Of the machine, only the given files are read. */
import { invalid } from '../../core/error.ts'
import { MOST_ALIASES } from '../../core/group/group.ts'
import { nearest } from '../../util/nearest.ts'
import { directoryOf, joinPath } from '../file-tree.ts'
import { type Problem, printable, problemsError, quoted } from '../toml/problem.ts'
import { type ComposeFile, ComposeFiles, type ReadableFiles } from './compose-file.ts'
import { serviceReader } from './extended-service.ts'
import { orderedFiles } from './included-files.ts'
import { canBeMember, memberName } from './member-plan.ts'
import type { ComposeMount, ComposeProject, ComposeService } from './model.ts'
import type { ComposeResource, ComposeResources, ServicePart } from './service.ts'
import { noteUnusedTop } from './unused-keys.ts'

export interface ComposeSources extends ReadableFiles {
  /** Relative to the project; later files override earlier ones. */
  readonly files: readonly string[]
  readonly profiles?: readonly string[] | undefined
  /**
   * The absolute path of the project. With it, a mount of a directory above the project is a mount of the
   * project at its place in that directory.
   */
  readonly directory?: string | undefined
}

const NAMES = ['compose.yaml', 'compose.yml', 'docker-compose.yaml', 'docker-compose.yml']
const MOST_NAMED = 16
const SERVICE_NAME = /^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$/
const MOST_SERVICES = 32

/** The files that `docker compose` would use in a directory: the first of its names, and its override. */
export function composeFilesIn(directory: string, has: (file: string) => boolean): string[] {
  const found = NAMES.map((name) => joinPath(directory, name)).find(has)
  if (found === undefined) return []
  const override = found.replace(/\.(ya?ml)$/, '.override.$1')
  return [found, ...[override].filter(has)]
}

/** Throws one error with the file, line and column of every problem. */
export function readCompose(sources: ComposeSources): ComposeProject {
  const [first] = sources.files
  if (first === undefined || sources.files.length > MOST_NAMED)
    throw invalid('compose.files', `a project has 1 to ${MOST_NAMED} compose files`)
  const directory = directoryOf(first)
  const files = new ComposeFiles(sources)
  const variables = files.variables(directory)
  const ordered = orderedFiles(files, { paths: sources.files, directory, variables }, (file) => {
    throw invalid('compose.missing', `there is no file ${file} that can be read as text`)
  })
  const all = [...mergeServices(files, ordered, sources.directory).values()]
  for (const file of files.all) noteUnusedTop(file)
  const problems = files.problems()
  if (problems.length === 0) problems.push(...checkServices(first, all))
  if (problems.length > 0) throw problemsError(problems)
  const active = activeServices(all, sources.profiles ?? [])
  const order = inOrder(active)
  const taken = portTakenTwice(order)
  if (taken) throw problemsError([taken])
  return {
    files: [...sources.files],
    name: ordered.findLast(({ table }) => table.name !== undefined)?.table.name,
    services: order,
    inactive: all
      .filter((one) => !active.includes(one))
      .map(({ name, file, line, profiles }) => ({ name, file, line, profiles })),
    notes: [
      ...files.all.flatMap(({ file, notes, lineOf }) =>
        notes.map(({ path, said }) => ({ file, line: lineOf(path), said })),
      ),
      ...separated(ordered),
    ],
  }
}

function mergeServices(
  files: ComposeFiles,
  ordered: readonly ComposeFile[],
  project: string | undefined,
): Map<string, ComposeService> {
  const partsOf = serviceReader({ files, ordered, resources: resourcesOf(ordered), project })
  const services = new Map<string, ComposeService>()
  for (const file of ordered)
    for (const name of Object.keys(file.table.services ?? {})) {
      const path = ['services', name]
      if (!SERVICE_NAME.test(name)) {
        const message = `${quoted(name)} is not the name of a service`
        file.remarks.push({ path, isKey: true, message })
        continue
      }
      const before = services.get(name) ?? emptyService(name, file.file, file.lineOf(path))
      services.set(name, partsOf(file, name).reduce(merged, before))
    }
  return services
}

function resourcesOf(files: readonly ComposeFile[]): ComposeResources {
  const of = <K extends 'volumes' | 'configs' | 'secrets'>(kind: K): ComposeResources[K] => {
    const listed = files.flatMap((from) =>
      Object.entries(from.table[kind] ?? {}).map(([name, table]) => [name, { table, from }] as const),
    )
    const isListed = files.some(({ table }) => table[kind])
    return (isListed ? new Map<string, ComposeResource<unknown>>(listed) : undefined) as ComposeResources[K]
  }
  return { volumes: of('volumes'), configs: of('configs'), secrets: of('secrets') }
}

/** With Docker, services without a network in common do not reach each other. */
function separated(files: readonly ComposeFile[]): ComposeProject['notes'] {
  const used = new Set(
    files.flatMap(({ table }) =>
      Object.values(table.services ?? {}).flatMap(({ networks = ['default'] }) =>
        Array.isArray(networks) ? (networks as readonly string[]) : Object.keys(networks),
      ),
    ),
  )
  if (used.size < 2) return []
  const [place] = files.flatMap((file) =>
    Object.entries(file.table.services ?? {}).flatMap(([name, { networks }]) =>
      networks === undefined ? [] : [{ file: file.file, line: file.lineOf(['services', name, 'networks']) }],
    ),
  )
  if (!place) return []
  const names = [...used].map((name) => printable(name)).join(', ')
  return [
    {
      ...place,
      said: `networks do not separate services: every member of the group reaches the others (${names})`,
    },
  ]
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

function checkServices(file: string, services: readonly ComposeService[]): Problem[] {
  const known = services.map(({ name }) => name)
  const problems: Problem[] = []
  const problem = (
    service: ComposeService,
    place: { readonly file: string; readonly line: number | undefined },
    message: string,
    hint?: string,
  ): void =>
    void problems.push({
      file: place.file,
      line: place.line ?? service.line,
      column: 1,
      path: `services.${service.name}`,
      message: `services.${service.name}: ${message}`,
      hint,
      reason: 'compose.service',
    })
  if (services.length === 0 || services.length > MOST_SERVICES)
    problems.push({
      file,
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
      problem(service, service, `has the host name ${host}, as ${other} has`, 'rename one of the services')
    hosts.set(host, service.name)
    if (!canBeMember(host))
      problem(
        service,
        service,
        `${host} cannot be the host name of a service: it is the name of another host`,
        'rename the service, without dots',
      )
    if (service.aliases.length > MOST_ALIASES)
      problem(service, service, `has more than ${MOST_ALIASES} aliases`, 'remove some of them')
    if (service.image === undefined && !service.build)
      problem(service, service, 'has neither image nor build', 'name an image, or a directory to build')
    for (const { service: other, file: of, line, isRequired } of service.dependsOn) {
      if (known.includes(other) || !isRequired) continue
      const near = nearest(other, known)
      problem(
        service,
        { file: of, line },
        `depends on ${quoted(other)}, which is no service`,
        near ? `did you mean ${near}?` : 'add the service, or remove the dependency',
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

function inOrder(services: readonly ComposeService[]): ComposeService[] {
  const done: ComposeService[] = []
  const visit = (service: ComposeService, path: readonly string[]): void => {
    if (done.includes(service)) return
    for (const { service: name, file, line } of service.dependsOn) {
      const other = services.find((one) => one.name === name)
      if (!other) continue
      const trail = [...path, service.name]
      if (trail.includes(name))
        throw problemsError([
          {
            file,
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
    for (const { published, file, line } of service.ports) {
      if (published === undefined) continue
      const other = taken.get(published)
      if (other)
        return {
          file,
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
