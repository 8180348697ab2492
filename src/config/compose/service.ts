/** One service of one compose file, from its table to the typed model. */
import { posix } from 'node:path'
import { isAgentPodError } from '../../core/error.ts'
import { isImageRef } from '../../core/image-ref.ts'
import { isNeverKept, parseEphemeralPath } from '../../core/volume/ephemeral.ts'
import { readEngineMib } from '../../util/quantity.ts'
import type { Path } from '../toml/positions.ts'
import { printable, quoted } from '../toml/problem.ts'
import type { ComposeFile } from './compose-file.ts'
import { readEnvFile } from './env-file.ts'
import { canBeMember, MOST_STOP_MS, memberName, stopSignalOf } from './member-plan.ts'
import type {
  ComposeDependency,
  ComposeFileMount,
  ComposeHealthcheck,
  ComposeMount,
  ComposePort,
} from './model.ts'
import type { ComposeTable, ServiceTable } from './schema.ts'
import { splitWords } from './shell-split.ts'
import { noteUnused, noteUnusedBuild, refuseWeakening } from './unused-keys.ts'

/** A volume, config or secret at the top of a file. */
export interface ComposeResource<T> {
  readonly table: T
  readonly from: ComposeFile
}

/** Those of all files. A kind that no file has is undefined. */
export interface ComposeResources {
  readonly volumes:
    | ReadonlyMap<string, ComposeResource<NonNullable<ComposeTable['volumes']>[string]>>
    | undefined
  readonly configs:
    | ReadonlyMap<string, ComposeResource<NonNullable<ComposeTable['configs']>[string]>>
    | undefined
  readonly secrets:
    | ReadonlyMap<string, ComposeResource<NonNullable<ComposeTable['secrets']>[string]>>
    | undefined
}

export interface ServiceContext extends ComposeFile {
  readonly resources: ComposeResources
  read(file: string): string | undefined
  isLeftOut(file: string): boolean
  /** The absolute path of the project, where mounts of directories above it are accepted. */
  readonly project?: string | undefined
}

/** The fields of a service that this file sets. Later files add to them or replace them. */
export interface ServicePart {
  readonly image?: string | undefined
  readonly build?:
    | {
        readonly context?: string | undefined
        readonly dockerfile?: string | undefined
        readonly args: Readonly<Record<string, string>>
        readonly target?: string | undefined
      }
    | undefined
  readonly command?: readonly string[] | null | undefined
  readonly entrypoint?: readonly string[] | null | undefined
  readonly environment: Readonly<Record<string, string>>
  readonly ports: readonly ComposePort[]
  readonly expose: readonly number[]
  readonly mounts: readonly ComposeMount[]
  readonly files: readonly ComposeFileMount[]
  readonly dependsOn: readonly ComposeDependency[]
  readonly healthcheck?: ComposeHealthcheck | undefined
  readonly workingDir?: string | undefined
  readonly user?: string | undefined
  readonly profiles: readonly string[]
  readonly aliases: readonly string[]
  readonly cpus?: number | undefined
  readonly memoryMib?: number | undefined
  readonly pids?: number | undefined
  readonly stopSignal?: string | undefined
  readonly stopMs?: number | undefined
}

export function readService(ctx: ServiceContext, name: string, table: ServiceTable): ServicePart {
  const at: Path = ['services', name]
  refuseWeakening(ctx, at, table)
  if (memberName(name) !== name)
    ctx.notes.push({ path: at, said: `the service ${name} is reached as ${memberName(name)}` })
  noteUnused(ctx, at, table)
  checkValues(ctx, at, table)
  const limits = table.deploy?.resources?.limits
  const memory = limits?.memory ?? table.mem_limit
  const pids = limits?.pids ?? table.pids_limit
  return {
    image: table.image,
    build: buildOf(ctx, at, table),
    command: wordsOf(ctx, [...at, 'command'], table.command),
    entrypoint: wordsOf(ctx, [...at, 'entrypoint'], table.entrypoint),
    environment: { ...envFiles(ctx, at, table), ...pairsOf(ctx, [...at, 'environment'], table.environment) },
    ports: (table.ports ?? []).flatMap((one, n) => portsOf(ctx, [...at, 'ports', n], one)),
    expose: (table.expose ?? []).flatMap((one, n) => exposedPort(ctx, [...at, 'expose', n], one)),
    mounts: mountsOf(ctx, at, table),
    files: [
      ...(table.configs ?? []).flatMap((one, n) => fileMount(ctx, [...at, 'configs', n], 'configs', one)),
      ...(table.secrets ?? []).flatMap((one, n) => fileMount(ctx, [...at, 'secrets', n], 'secrets', one)),
    ],
    dependsOn: dependenciesOf(ctx, at, table),
    healthcheck: healthcheckOf(ctx, at, table),
    workingDir: table.working_dir,
    user: table.user,
    profiles: table.profiles ?? [],
    aliases: aliasesOf(ctx, at, table),
    cpus: limits?.cpus ?? table.cpus,
    memoryMib: memory === undefined ? undefined : mibOf(ctx, at, memory),
    pids: pids !== undefined && pids > 0 ? pids : undefined,
    stopSignal: table.stop_signal,
    stopMs:
      table.stop_grace_period === undefined
        ? undefined
        : msOf(ctx, [...at, 'stop_grace_period'], table.stop_grace_period),
  }
}

const USER = /^(?:[a-z_][a-z0-9_-]{0,31}|\d{1,10})(?::(?:[a-zA-Z_][a-zA-Z0-9_-]{0,31}|\d{1,10}))?$/

/** Values that would fail only when the service starts. */
function checkValues({ remarks, notes }: ServiceContext, at: Path, table: ServiceTable): void {
  const { image, user, working_dir: directory, stop_signal: signal, stop_grace_period: grace } = table
  const wrong = (key: string, value: string, what: string, hint: string): void =>
    void remarks.push({
      path: [...at, key],
      message: `${quoted(value)} is not ${what}`,
      hint,
      reason: 'compose.value',
    })
  if (image !== undefined && !isImageRef(image))
    wrong('image', image, 'the name of an image', 'write it like postgres:17')
  if (user !== undefined && !USER.test(user))
    wrong('user', user, 'a user', 'write a name in lowercase, or numbers like 1000:1000')
  if (directory !== undefined && !directory.startsWith('/'))
    wrong('working_dir', directory, 'an absolute path', 'begin it with /')
  if (signal !== undefined && stopSignalOf(signal) === undefined)
    notes.push({
      path: [...at, 'stop_signal'],
      said: `stop_signal ${printable(signal)} is not used: SIGTERM is`,
    })
  if (grace !== undefined && (durationMs(grace) ?? 0) > MOST_STOP_MS)
    notes.push({
      path: [...at, 'stop_grace_period'],
      said: `stop_grace_period is at most ${MOST_STOP_MS / 1000} s`,
    })
}

function buildOf(ctx: ServiceContext, at: Path, { build }: ServiceTable): ServicePart['build'] {
  if (build === undefined) return undefined
  const table = typeof build === 'string' ? { context: build } : build
  for (const key of [
    'dockerfile_inline',
    'additional_contexts',
    'secrets',
    'ssh',
    'privileged',
    'entitlements',
  ] as const)
    if (table[key] !== undefined && table[key] !== 'false')
      ctx.remarks.push({
        path: [...at, 'build', key],
        isKey: true,
        message: 'is not supported',
        hint: 'use a Dockerfile of the project without it',
        reason: 'compose.unsupported',
      })
  if (typeof build !== 'string') noteUnusedBuild(ctx, [...at, 'build'], build)
  const path = typeof build === 'string' ? [...at, 'build'] : [...at, 'build', 'context']
  const context = table.context === undefined ? undefined : insideProject(ctx, path, table.context)
  if (table.dockerfile !== undefined && context !== undefined)
    insideProject({ ...ctx, directory: context }, [...at, 'build', 'dockerfile'], table.dockerfile)
  return {
    context,
    dockerfile: table.dockerfile,
    args: pairsOf(ctx, [...at, 'build', 'args'], table.args),
    target: table.target,
  }
}

/** A path relative to the project. SECURITY: CF-02. Refuses paths outside of it. */
export function insideProject(
  ctx: Pick<ComposeFile, 'directory' | 'remarks'>,
  path: Path,
  text: string,
): string | undefined {
  const joined = posix.normalize(posix.join(ctx.directory, text))
  const isInside =
    !text.startsWith('/') && !text.startsWith('~') && joined !== '..' && !joined.startsWith('../')
  if (isInside && !/^[a-z][a-z0-9+.-]*:\/\//i.test(text))
    return joined === '.' ? '' : joined.replace(/^\.\/|\/$/g, '')
  ctx.remarks.push({
    path,
    message: `${quoted(text)} is not in the project`,
    hint: 'only files of the project are brought into sandboxes: use a relative path inside it',
    reason: 'compose.outside',
  })
  return undefined
}

function wordsOf(
  ctx: ServiceContext,
  path: Path,
  value: string | readonly string[] | null | undefined,
): readonly string[] | null | undefined {
  if (value === undefined || value === null) return value
  if (typeof value !== 'string') return value
  const words = splitWords(value)
  if (!words) ctx.remarks.push({ path, message: 'has a quote that is not closed' })
  return words ?? []
}

function pairsOf(
  ctx: ServiceContext,
  path: Path,
  value: Readonly<Record<string, string | null>> | readonly string[] | undefined,
): Record<string, string> {
  const made: Record<string, string> = {}
  const entries = Array.isArray(value)
    ? (value as readonly string[]).map((one, n) => {
        const at = one.indexOf('=')
        return at < 0 ? ([one, null, n] as const) : ([one.slice(0, at), one.slice(at + 1), n] as const)
      })
    : Object.entries((value ?? {}) as Record<string, string | null>).map(
        ([name, text]) => [name, text, name] as const,
      )
  for (const [name, text, key] of entries) {
    if (!/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(name)) {
      ctx.remarks.push({ path: [...path, key], message: `${quoted(name)} is not the name of a variable` })
      continue
    }
    const known = text ?? ctx.variables.get(name)
    if (known === undefined)
      ctx.notes.push({
        path: [...path, key],
        said: `the variable ${printable(name)} has no value; ${ctx.variables.howToSet(printable(name))}`,
      })
    else made[name] = known
  }
  return made
}

function envFiles(
  ctx: ServiceContext,
  at: Path,
  { env_file: files = [] }: ServiceTable,
): Record<string, string> {
  const made: Record<string, string> = {}
  for (const [n, one] of files.entries()) {
    const { path, required = true } = typeof one === 'string' ? { path: one } : one
    const place = [...at, 'env_file', n]
    const file = insideProject(ctx, place, path)
    if (file === undefined) continue
    const text = ctx.read(file)
    if (text !== undefined) Object.assign(made, readEnvFile(text, { ...ctx.variables.all, ...made }))
    else {
      const isHidden = ctx.isLeftOut(file)
      const why = isHidden ? `${quoted(path)} is a file that git ignores` : `there is no file ${quoted(path)}`
      if (!required) {
        if (isHidden) ctx.notes.push({ path: place, said: `${why}, so it is not read` })
        continue
      }
      ctx.remarks.push({
        path: place,
        message: why,
        hint: isHidden
          ? 'such files may hold secrets and never reach a sandbox: let git track it, or write required: false'
          : 'correct the path, or write required: false',
        reason: 'compose.missing',
      })
    }
  }
  return made
}

function portNumber(text: string): number | undefined {
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0
  return port >= 1 && port <= 65_535 ? port : undefined
}

function exposedPort(ctx: ServiceContext, path: Path, text: string): number[] {
  const port = portNumber(text.replace(/\/tcp$/, ''))
  if (port !== undefined) return [port]
  ctx.remarks.push({ path, message: `${quoted(text)} is not a TCP port` })
  return []
}

function portsOf(
  ctx: ServiceContext,
  path: Path,
  one: NonNullable<ServiceTable['ports']>[number],
): ComposePort[] {
  const place = { file: ctx.file, line: ctx.lineOf(path) }
  const wrong = (message: string, hint?: string): ComposePort[] => {
    ctx.remarks.push({ path, message, hint, reason: 'compose.port' })
    return []
  }
  const noUdp = (): ComposePort[] => wrong('UDP ports are not forwarded', 'only TCP reaches a sandbox')
  if (typeof one !== 'string') {
    if (one.protocol === 'udp') return noUdp()
    const published = one.published === undefined ? undefined : portNumber(one.published)
    if (one.published !== undefined && published === undefined) return wrong('published is not one port')
    return [{ target: one.target, published, ...place }]
  }
  const [spec = '', protocol = 'tcp'] = one.split('/')
  if (protocol === 'udp') return noUdp()
  const parts = spec.replace(/^\[[^\]]*\]:|^(?:\d{1,3}\.){3}\d{1,3}:/, '').split(':')
  const range = (text: string): number[] => {
    const [first = '', last = first] = text.split('-')
    const [from, to] = [portNumber(first), portNumber(last)]
    if (from === undefined || to === undefined || to < from || to - from > 31) return []
    return Array.from({ length: to - from + 1 }, (_, n) => from + n)
  }
  const targets = range(parts.at(-1) ?? '')
  const outside = parts.length > 1 && parts[0] !== '' ? range(parts[0] ?? '') : undefined
  if (targets.length === 0 || parts.length > 2 || (outside && outside.length !== targets.length))
    return wrong(`${quoted(one)} is not a port`, 'write it like "8080:80"')
  return targets.map((target, n) => ({ target, published: outside?.[n], ...place }))
}

function mountsOf(ctx: ServiceContext, at: Path, table: ServiceTable): ComposeMount[] {
  const mounts = (table.volumes ?? []).flatMap((one, n) => mountOf(ctx, [...at, 'volumes', n], one))
  const temporary = (table.tmpfs ?? []).flatMap((one, n) => {
    const listed = [...at, 'tmpfs', n]
    const path = ctx.lineOf(listed) === undefined ? [...at, 'tmpfs'] : listed
    const [target = '', said = ''] = one.split(':')
    const options = said.split(',').filter((option) => option !== '')
    const size = options.find((option) => option.startsWith('size='))?.slice('size='.length)
    const others = options.filter((option) => !/^(?:size=.*|rw|nosuid|nodev|exec)$/.test(option))
    if (others.length > 0)
      ctx.notes.push({
        path,
        said: `${printable(others.join(','))} of tmpfs ${printable(target)} is not used`,
      })
    return temporaryMount(ctx, path, target, size)
  })
  return [...mounts, ...temporary]
}

/** /tmp and /run are in memory in every sandbox, so that a directory in them needs no mount. */
function temporaryMount(ctx: ServiceContext, path: Path, target: string, size?: string): ComposeMount[] {
  if (isNeverKept(target)) return [{ kind: 'empty', target }]
  try {
    parseEphemeralPath(target)
  } catch (error) {
    if (!isAgentPodError(error, 'invalid_argument')) throw error
    ctx.remarks.push({ path, message: error.message, hint: error.hint, reason: 'compose.mount' })
    return []
  }
  const sizeMib = size === undefined ? undefined : mibOf(ctx, path, size)
  return [{ kind: 'tmpfs', target, ...(sizeMib !== undefined && { sizeMib }) }]
}

const VOLUME_NAME = /^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,62}$/

function mountOf(
  ctx: ServiceContext,
  path: Path,
  one: NonNullable<ServiceTable['volumes']>[number],
): ComposeMount[] {
  const wrong = (message: string, hint?: string): ComposeMount[] => {
    ctx.remarks.push({ path, message, hint, reason: 'compose.mount' })
    return []
  }
  const short = typeof one === 'string' ? one.split(':') : undefined
  if (short && short.length > 3) return wrong(`${quoted(String(one))} is not a mount`)
  const long = typeof one === 'string' ? undefined : one
  const source = long ? long.source : (short?.length ?? 0) > 1 ? short?.[0] : undefined
  const target = long ? long.target : (short?.[short.length > 1 ? 1 : 0] ?? '')
  const options = short?.[2]?.split(',') ?? []
  const isReadOnly = long ? (long.read_only ?? false) : options.includes('ro')
  if (!target.startsWith('/') || posix.normalize(target) === '/')
    return wrong(`${quoted(target)} is not a path below / inside`)
  if (long && !['volume', 'bind', 'tmpfs'].includes(long.type))
    return wrong(`mounts of ${long.type} are not supported`)
  if (long?.type === 'tmpfs') {
    if (long.tmpfs?.mode !== undefined)
      ctx.notes.push({ path, said: `the mode of tmpfs ${printable(target)} is not used` })
    return temporaryMount(ctx, path, target, long.tmpfs?.size)
  }
  if (source === undefined) return [{ kind: 'empty', target }]
  const isBind = long ? long.type === 'bind' : /^[./~]/.test(source)
  if (isBind) {
    const below = projectBelow(ctx, source)
    if (below !== undefined) {
      ctx.notes.push({ path, said: `only the project is at ${quoted(target)}, not what is beside it` })
      return [{ kind: 'bind', source: '', target: posix.join(target, below), isReadOnly }]
    }
    const inside = insideProject(ctx, path, source)
    return inside === undefined ? [] : [{ kind: 'bind', source: inside, target, isReadOnly }]
  }
  if (!VOLUME_NAME.test(source)) return wrong(`${quoted(source)} is not the name of a volume`)
  const declared = ctx.resources.volumes
  if (declared && !declared.has(source)) return wrong(`the volume ${quoted(source)} is not in volumes:`)
  const volume = declared?.get(source)?.table
  if (volume?.external !== undefined && volume.external !== false)
    return wrong(
      `the volume ${quoted(source)} is external`,
      'volumes of a project are its own: remove external',
    )
  return [{ kind: 'volume', name: source, target, isReadOnly }]
}

/** Where the project is in a directory above it. SECURITY: CF-02. Nothing else of that directory is used. */
function projectBelow({ directory, project }: ServiceContext, source: string): string | undefined {
  const joined = posix.normalize(posix.join(directory, source)).replace(/\/$/, '')
  if (project === undefined || posix.isAbsolute(source) || !/^\.\.(?:\/\.\.)*$/.test(joined)) return undefined
  const names = project.split('/').filter((one) => one !== '')
  const levels = joined.split('/').length
  return levels > names.length ? undefined : names.slice(-levels).join('/')
}

function fileMount(
  ctx: ServiceContext,
  path: Path,
  kind: 'configs' | 'secrets',
  one: NonNullable<ServiceTable['configs']>[number],
): ComposeFileMount[] {
  const source = typeof one === 'string' ? one : one.source
  const { table: named, from } = ctx.resources[kind]?.get(source) ?? {}
  const wrong = (message: string, hint?: string): ComposeFileMount[] => {
    ctx.remarks.push({ path, message, hint, reason: 'compose.file' })
    return []
  }
  if (!named || !from) return wrong(`${quoted(source)} is not in ${kind}:`)
  if (named.external !== undefined && named.external !== false) return wrong(`${quoted(source)} is external`)
  const asked = typeof one === 'string' ? undefined : one.target
  const target =
    kind === 'secrets' ? posix.resolve('/run/secrets', asked ?? source) : posix.resolve('/', asked ?? source)
  const sources = [named.file, named.content, named.environment].filter((part) => part !== undefined)
  if (sources.length > 1) return wrong(`${quoted(source)} has more than one of file, content and environment`)
  if (named.content !== undefined) return [{ target, file: undefined, content: named.content }]
  if (named.environment !== undefined) {
    const content = from.variables.get(named.environment)
    return content === undefined
      ? wrong(
          `the variable ${quoted(named.environment)} has no value`,
          from.variables.howToSet(printable(named.environment)),
        )
      : [{ target, file: undefined, content }]
  }
  if (named.file === undefined) return wrong(`${quoted(source)} has neither file, content nor environment`)
  const file = insideProject(from, [kind, source, 'file'], named.file)
  return file === undefined ? [] : [{ target, file, content: undefined }]
}

function dependenciesOf(
  { file, lineOf }: ServiceContext,
  at: Path,
  { depends_on: asked, links }: ServiceTable,
): ComposeDependency[] {
  const path = [...at, 'depends_on']
  const listed = (names: readonly string[], below: Path): ComposeDependency[] =>
    names.map((service, n) => ({
      service,
      condition: 'service_started',
      isRequired: true,
      file,
      line: lineOf([...below, n]),
    }))
  const own = Array.isArray(asked)
    ? listed(asked as readonly string[], path)
    : Object.entries((asked ?? {}) as Exclude<typeof asked, readonly string[] | undefined>).map(
        ([service, { condition, required = true }]) => ({
          service,
          condition,
          isRequired: required,
          file,
          line: lineOf([...path, service]),
        }),
      )
  const linked = (links ?? []).map((one) => one.split(':')[0] ?? one)
  return [
    ...own,
    ...listed(
      linked.filter((one) => !own.some(({ service }) => service === one)),
      [...at, 'links'],
    ),
  ]
}

const DEFAULT_TIMEOUT_MS = 30_000
const DEFAULT_INTERVAL_MS = 30_000
const MOST_READY_MS = 30 * 60_000

function healthcheckOf(
  ctx: ServiceContext,
  at: Path,
  { healthcheck }: ServiceTable,
): ComposeHealthcheck | undefined {
  if (!healthcheck) return undefined
  const path = [...at, 'healthcheck']
  const { test, interval, timeout, retries = 3, start_period: start, disable } = healthcheck
  const ms = (key: string, text: string | undefined, otherwise: number): number =>
    text === undefined ? otherwise : (msOf(ctx, [...path, key], text) ?? otherwise)
  const timeoutMs = ms('timeout', timeout, DEFAULT_TIMEOUT_MS)
  const readyMs =
    ms('start_period', start, 0) + retries * (ms('interval', interval, DEFAULT_INTERVAL_MS) + timeoutMs)
  const limits = {
    timeoutMs: Math.min(timeoutMs, MOST_READY_MS),
    readyMs: Math.min(Math.max(readyMs, 1000), MOST_READY_MS),
  }
  if (disable || test === undefined) return { test: undefined, ...limits }
  if (typeof test === 'string') return { test, ...limits }
  const [kind, ...words] = test
  if (kind === 'NONE') return { test: undefined, ...limits }
  if (kind === 'CMD-SHELL' && words.length === 1) return { test: words[0], ...limits }
  if (kind === 'CMD' && words.length > 0) return { test: words, ...limits }
  ctx.remarks.push({
    path: [...path, 'test'],
    message: 'does not begin with NONE, CMD or CMD-SHELL',
    hint: 'write test: ["CMD", "program", "argument"]',
  })
  return undefined
}

function aliasesOf(ctx: ServiceContext, at: Path, table: ServiceTable): string[] {
  const networks = table.networks && !Array.isArray(table.networks) ? Object.entries(table.networks) : []
  const linked = (table.links ?? []).filter((one) => one.includes(':'))
  for (const one of linked)
    ctx.notes.push({
      path: [...at, 'links'],
      said: `the link ${printable(one)} is not used: add an alias to the other service`,
    })
  const listed = (networks as [string, { aliases?: string[] } | null][]).flatMap(([network, one]) =>
    (one?.aliases ?? []).map((alias) => [alias, ['networks', network, 'aliases']] as const),
  )
  const named = (['hostname', 'container_name'] as const).flatMap((key) =>
    table[key] === undefined ? [] : [[table[key], [key]] as const],
  )
  return [...listed, ...named].flatMap(([alias, path]) => {
    if (canBeMember(alias)) return [alias]
    ctx.notes.push({
      path: [...at, ...path],
      said: `the host name ${printable(alias)} is not used: a name in a group has lowercase letters, digits and hyphens, and no host outside has it`,
    })
    return []
  })
}

/** Docker's sizes: `512m`, `2gb`, bytes without a unit. */
function mibOf(ctx: ServiceContext, at: Path, text: string): number | undefined {
  const mib = readEngineMib(text)
  if (mib === undefined || mib === 0)
    ctx.remarks.push({ path: at, message: `${quoted(text)} is not a size`, hint: 'write it like 512m or 2g' })
  return mib
}

function msOf(ctx: ServiceContext, path: Path, text: string): number | undefined {
  const ms = durationMs(text)
  if (ms === undefined)
    ctx.remarks.push({
      path,
      message: `${quoted(text)} is not a duration`,
      hint: 'write it like 30s or 1m30s',
    })
  return ms
}

/** Go's durations: `1m30s`, `500ms`. */
function durationMs(text: string): number | undefined {
  const UNITS: Readonly<Record<string, number>> = {
    h: 3_600_000,
    m: 60_000,
    s: 1000,
    ms: 1,
    us: 0.001,
    ns: 0.000001,
  }
  const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(ms|us|ns|h|m|s)/g)]
  if (parts.length > 0 && parts.map(([whole]) => whole).join('') === text)
    return Math.round(
      parts.reduce((sum, [, amount, unit]) => sum + Number(amount) * (UNITS[unit ?? ''] ?? 0), 0),
    )
  return undefined
}
