/** One service of one compose file, from its table to the typed model. */
import { posix } from 'node:path'
import { isAgentPodError } from '../../core/error.ts'
import { isNeverKept, parseEphemeralPath } from '../../core/volume/ephemeral.ts'
import { readEngineMib } from '../../util/quantity.ts'
import type { Path } from '../toml/positions.ts'
import { printable, quoted, type Remark } from '../toml/problem.ts'
import type {
  ComposeDependency,
  ComposeFileMount,
  ComposeHealthcheck,
  ComposeMount,
  ComposePort,
} from './model.ts'
import type { ComposeTable, ServiceTable } from './schema.ts'
import { splitWords } from './shell-split.ts'

export interface ServiceContext {
  /** The directory of the first file, relative to the project; paths in all files are relative to it. */
  readonly directory: string
  readonly table: ComposeTable
  lineOf(path: Path): number | undefined
  /** A variable of the project's .env file. */
  variable(name: string): string | undefined
  read(file: string): string | undefined
  /** The absolute path of the project, where mounts of directories above it are accepted. */
  readonly project?: string | undefined
  readonly remarks: Remark[]
  readonly notes: { readonly path: Path; readonly said: string }[]
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
  noteUnused(ctx, at, table)
  const limits = table.deploy?.resources?.limits
  const memory = limits?.memory ?? table.mem_limit
  const pids = limits?.pids ?? (table.pids_limit === undefined ? undefined : Number(table.pids_limit))
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

const WEAKENING: Readonly<Record<string, string>> = {
  cap_add: 'a sandbox has no further capabilities',
  devices: 'a sandbox has no devices of the machine',
  device_cgroup_rules: 'a sandbox has no devices of the machine',
  gpus: 'a sandbox has no devices of the machine',
  security_opt: 'the isolation of a sandbox cannot be changed',
  userns_mode: 'the isolation of a sandbox cannot be changed',
  cgroup: 'the isolation of a sandbox cannot be changed',
  cgroup_parent: 'the isolation of a sandbox cannot be changed',
  runtime: 'the isolation of a sandbox cannot be changed',
  isolation: 'the isolation of a sandbox cannot be changed',
  volumes_from: 'name the volumes in this service as well',
  external_links: 'only services of this file are reachable',
  credential_spec: 'it is for Windows',
  provider: 'only containers run in sandboxes',
  extends: 'write the keys into this service',
  post_start: 'put the commands into the command of the service',
  pre_stop: 'put the commands into the command of the service',
}

/** SECURITY: CF-02. What would reach outside of the sandbox is refused, never ignored. */
function refuseWeakening({ remarks }: ServiceContext, at: Path, table: ServiceTable): void {
  const refuse = (key: string, hint: string): void =>
    void remarks.push({
      path: [...at, key],
      isKey: true,
      message: 'is not supported in a sandbox',
      hint,
      reason: 'compose.unsupported',
    })
  if (table.privileged) refuse('privileged', 'a sandbox is never privileged; remove the key')
  const mode = table.network_mode
  if (mode !== undefined && !['bridge', 'none', 'default'].includes(mode))
    refuse('network_mode', 'services reach each other by name; remove the key')
  for (const key of ['pid', 'ipc', 'uts'] as const)
    if (table[key] !== undefined && !['private', 'shareable', 'none'].includes(table[key]))
      refuse(key, 'a sandbox has its own namespaces; remove the key')
  for (const [key, hint] of Object.entries(WEAKENING))
    if (Object.hasOwn(table, key) && table[key as keyof ServiceTable] !== undefined) refuse(key, hint)
  const copies = table.scale ?? table.deploy?.replicas ?? 1
  if (copies !== 1) refuse(table.scale === undefined ? 'deploy' : 'scale', 'a service runs once in a group')
}

const UNUSED: Readonly<Record<string, string>> = {
  restart: 'a service that ends is not started again',
  logging: 'output is kept by AgentPod',
  dns: 'names are resolved outside of the sandbox',
  dns_opt: 'names are resolved outside of the sandbox',
  dns_search: 'names are resolved outside of the sandbox',
  ulimits: 'limits of files and processes are those of the sandbox',
  sysctls: 'kernel settings are those of the machine',
  platform: 'images for this machine are used',
  develop: '`agentpod dev --sync` watches the project',
  extra_hosts: 'hosts outside are reached by their own names and rules',
  read_only: 'the files of a sandbox can be written, and end with it',
  mac_address: 'a sandbox has no network card',
  mem_reservation: 'only limits apply',
  shm_size: 'the size is that of the sandbox',
  cpuset: 'only the number of processors is limited',
  cpu_shares: 'only the number of processors is limited',
  cpu_quota: 'only the number of processors is limited',
  cpu_period: 'only the number of processors is limited',
  oom_kill_disable: 'a sandbox ends processes that use too much memory',
  oom_score_adj: 'a sandbox ends processes that use too much memory',
  mem_swappiness: 'a sandbox has no swap of its own',
  memswap_limit: 'a sandbox has no swap of its own',
  blkio_config: 'disks are shared fairly by the machine',
  storage_opt: 'the disk of a sandbox has its own limit',
  models: 'models are reached by their hosts',
}

function noteUnused({ notes }: ServiceContext, at: Path, table: ServiceTable): void {
  for (const [key, why] of Object.entries(UNUSED)) {
    const value = Object.hasOwn(table, key) ? table[key as keyof ServiceTable] : undefined
    if (value !== undefined && value !== false && !(key === 'restart' && value === 'no'))
      notes.push({ path: [...at, key], said: `${key} is not used: ${why}` })
  }
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
    if (table[key] !== undefined)
      ctx.remarks.push({
        path: [...at, 'build', key],
        isKey: true,
        message: 'is not supported',
        hint: 'use a Dockerfile of the project without it',
        reason: 'compose.unsupported',
      })
  const context =
    table.context === undefined ? undefined : insideProject(ctx, [...at, 'build', 'context'], table.context)
  return {
    context,
    dockerfile: table.dockerfile,
    args: pairsOf(ctx, [...at, 'build', 'args'], table.args),
    target: table.target,
  }
}

/** A path relative to the project. SECURITY: CF-02. Refuses paths outside of it. */
function insideProject(ctx: ServiceContext, path: Path, text: string): string | undefined {
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
    const known = text ?? ctx.variable(name)
    if (known === undefined)
      ctx.notes.push({ path: [...path, key], said: `${printable(name)} has no value: write it into .env` })
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
    if (text !== undefined) Object.assign(made, readEnvFile(text))
    else if (required)
      ctx.remarks.push({
        path: place,
        message: `there is no file ${quoted(path)}`,
        reason: 'compose.missing',
      })
  }
  return made
}

/**
 * NAME=VALUE lines, with quotes and comments as in Docker's own reader. SECURITY: CF-02. Takes linear time:
 * expressions with several runs of spaces do not.
 */
export function readEnvFile(text: string): Record<string, string> {
  const made: Record<string, string> = {}
  for (const line of text.split('\n')) {
    const at = line.indexOf('=')
    const name = line
      .slice(0, Math.max(at, 0))
      .trim()
      .replace(/^export[ \t]+/, '')
    if (/^[A-Za-z_][A-Za-z0-9_.-]*$/.test(name)) made[name] = envValue(line.slice(at + 1).trim())
  }
  return made
}

function envValue(raw: string): string {
  const quote = raw[0]
  if (quote === '"' || quote === "'") {
    let end = raw.indexOf(quote, 1)
    while (quote === '"' && raw[end - 1] === '\\') end = raw.indexOf(quote, end + 1)
    const rest = raw.slice(end + 1).trimStart()
    if (end > 0 && (rest === '' || rest.startsWith('#'))) {
      const value = raw.slice(1, end)
      return quote === '"' ? value.replaceAll('\\n', '\n').replaceAll('\\"', '"') : value
    }
  }
  let comment = raw.indexOf('#')
  while (comment > 0 && !/\s/.test(raw[comment - 1] ?? '')) comment = raw.indexOf('#', comment + 1)
  return comment < 0 ? raw : raw.slice(0, comment).trimEnd()
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
  const line = ctx.lineOf(path)
  const wrong = (message: string, hint?: string): ComposePort[] => {
    ctx.remarks.push({ path, message, hint, reason: 'compose.port' })
    return []
  }
  const noUdp = (): ComposePort[] => wrong('UDP ports are not forwarded', 'only TCP reaches a sandbox')
  if (typeof one !== 'string') {
    if (one.protocol === 'udp') return noUdp()
    const published = one.published === undefined ? undefined : portNumber(one.published)
    if (one.published !== undefined && published === undefined) return wrong('published is not one port')
    return [{ target: one.target, published, line }]
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
  return targets.map((target, n) => ({ target, published: outside?.[n], line }))
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
  const declared = ctx.table.volumes
  if (declared && !Object.hasOwn(declared, source))
    return wrong(`the volume ${quoted(source)} is not in volumes:`)
  const volume = declared?.[source]
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
  const named = ctx.table[kind]?.[source]
  const wrong = (message: string, hint?: string): ComposeFileMount[] => {
    ctx.remarks.push({ path, message, hint, reason: 'compose.file' })
    return []
  }
  if (!named) return wrong(`${quoted(source)} is not in ${kind}:`)
  if (named.external !== undefined && named.external !== false) return wrong(`${quoted(source)} is external`)
  const asked = typeof one === 'string' ? undefined : one.target
  const target =
    kind === 'secrets' ? posix.resolve('/run/secrets', asked ?? source) : posix.resolve('/', asked ?? source)
  if (named.content !== undefined) return [{ target, file: undefined, content: named.content }]
  if (named.environment !== undefined) {
    const content = ctx.variable(named.environment)
    return content === undefined
      ? wrong(`the variable ${quoted(named.environment)} has no value`, 'write it into .env')
      : [{ target, file: undefined, content }]
  }
  if (named.file === undefined) return wrong(`${quoted(source)} has neither file, content nor environment`)
  const file = insideProject(ctx, [kind, source, 'file'], named.file)
  return file === undefined ? [] : [{ target, file, content: undefined }]
}

function dependenciesOf(
  { lineOf }: ServiceContext,
  at: Path,
  { depends_on: asked, links }: ServiceTable,
): ComposeDependency[] {
  const path = [...at, 'depends_on']
  const listed = (names: readonly string[], below: Path): ComposeDependency[] =>
    names.map((service, n) => ({
      service,
      condition: 'service_started',
      isRequired: true,
      line: lineOf([...below, n]),
    }))
  const own = Array.isArray(asked)
    ? listed(asked as readonly string[], path)
    : Object.entries((asked ?? {}) as Exclude<typeof asked, readonly string[] | undefined>).map(
        ([service, { condition, required = true }]) => ({
          service,
          condition,
          isRequired: required,
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
  const fixed = (networks as [string, { ipv4_address?: string } | null][]).filter(
    ([, network]) => network?.ipv4_address,
  )
  for (const [network] of fixed)
    ctx.notes.push({
      path: [...at, 'networks', network, 'ipv4_address'],
      said: 'a fixed address is not used: members have names and no addresses',
    })
  return [
    ...(networks as [string, { aliases?: string[] } | null][]).flatMap(
      ([, network]) => network?.aliases ?? [],
    ),
    ...[table.hostname, table.container_name].filter((one) => one !== undefined),
  ]
}

/** Docker's sizes: `512m`, `2gb`, bytes without a unit. */
function mibOf(ctx: ServiceContext, at: Path, text: string): number | undefined {
  const mib = readEngineMib(text)
  if (mib === undefined || mib === 0)
    ctx.remarks.push({ path: at, message: `${quoted(text)} is not a size`, hint: 'write it like 512m or 2g' })
  return mib
}

/** Go's durations: `1m30s`, `500ms`. */
function msOf(ctx: ServiceContext, path: Path, text: string): number | undefined {
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
  ctx.remarks.push({ path, message: `${quoted(text)} is not a duration`, hint: 'write it like 30s or 1m30s' })
  return undefined
}
