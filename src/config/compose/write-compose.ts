/** Writes a plan as a compose file that Docker runs unchanged. What it cannot say is a comment. */
import { posix } from 'node:path'
import { stringify } from 'yaml'
import { shellWord } from '../../util/shell/shell-word.ts'
import type { Language } from '../detect/finding.ts'
import type { LanguagePlan, Plan } from '../plan/plan.ts'
import { KNOWN_SERVICES, loginOf } from '../plan/services/service-catalog.ts'
import type { ServicePlan } from '../plan/services/service-plan.ts'
import type { EphemeralWish, VolumeWish } from '../project/data.ts'
import { memberName } from './member-plan.ts'

type Table = Record<string, unknown>

/** Official images by language, and how Debian packages the language where another image is used. */
const IMAGES: Partial<Readonly<Record<Language, readonly [image: string, apt: readonly string[]]>>> = {
  node: ['node', ['nodejs', 'npm']],
  python: ['python', ['python3', 'python3-venv', 'python3-pip']],
  go: ['golang', ['golang']],
  rust: ['rust', ['cargo']],
  java: ['eclipse-temurin', ['default-jdk']],
  kotlin: ['eclipse-temurin', ['default-jdk']],
  ruby: ['ruby', ['ruby-full']],
  php: ['php', ['php-cli', 'composer']],
  elixir: ['elixir', ['elixir']],
  bun: ['oven/bun', []],
  deno: ['denoland/deno', []],
  c: ['gcc', ['build-essential']],
}
const OTHERWISE = 'buildpack-deps:bookworm'
const WORKSPACE = '/workspace'
const APP = 'app'

/** What agentpod.toml asks for besides the plan. */
export interface ComposeExtras {
  readonly volumes?: readonly VolumeWish[] | undefined
  readonly ephemeral?: readonly EphemeralWish[] | undefined
  readonly user?: string | undefined
}

export function composeText(plan: Plan, extras: ComposeExtras = {}): string {
  const comments: string[] = []
  const app = appService(plan, extras, comments)
  const services: Record<string, Table> = { [APP]: app }
  const volumes: Record<string, null> = Object.fromEntries(
    (extras.volumes ?? []).map(({ name }) => [name, null]),
  )
  for (const service of plan.services) {
    const name = memberName(service.name)
    services[name] = service.command ? ownCommand(app, service) : knownService(service, name)
    if (!service.command) volumes[`${name}-data`] = null
  }
  const file = { services, ...(Object.keys(volumes).length > 0 && { volumes }) }
  const head = [
    `${plan.name}: written by \`agentpod config compose\` from agentpod.toml`,
    'docker compose up',
    ...comments,
  ]
  const text = stringify(JSON.parse(JSON.stringify(file)), { lineWidth: 0, nullStr: '' })
  return `${head.map((line) => `# ${line.replaceAll(/[\r\n]/g, ' ')}`).join('\n')}\n${text}`
}

function appService(plan: Plan, extras: ComposeExtras, comments: string[]): Table {
  const { resolvedBase, languages, services, ports, resources } = plan
  const known = services.filter(({ command }) => !command)
  const [first, ...others] = languages.filter(({ language }) => IMAGES[language])
  const { dockerfile, image } = resolvedBase
  const source = dockerfile
    ? {
        build: {
          context: dockerfile.context === '' ? '.' : `./${dockerfile.context}`,
          // Docker looks for it in the context.
          dockerfile: posix.relative(dockerfile.context, dockerfile.file),
          ...(dockerfile.target !== undefined && { target: dockerfile.target }),
          ...(Object.keys(dockerfile.args).length > 0 && { args: dockerfile.args }),
        },
      }
    : { image: image ?? (first ? languageImage(first) : OTHERWISE) }
  const isOnLanguage = !dockerfile && image === undefined
  const packages = isOnLanguage ? aptPackages(plan, others) : []
  for (const {
    language,
    source: { version },
  } of isOnLanguage ? others : [])
    comments.push(`${language} ${version} is Debian's version here`)
  if (plan.extra.npm.length + plan.extra.pip.length > 0)
    comments.push('npm and pip packages of [environment.packages] are not installed')
  if (plan.addons.length > 0)
    comments.push(`${plan.addons.map(({ name }) => name).join(', ')} of [addons] have no counterpart`)
  if (extras.user !== undefined)
    comments.push(`user ${extras.user} of [environment] is not used: commands run as the image's user`)
  comments.push('network rules, secrets and agents of agentpod.toml have no counterpart in a compose file')
  const commands = [
    ...(packages.length > 0
      ? [`apt-get update && apt-get install -y --no-install-recommends ${packages.map(shellWord).join(' ')}`]
      : []),
    ...plan.setups.map(({ directory, run, script }) => inDirectory(directory, script ?? run)),
    ...plan.starts.map(({ run, script }) => script ?? run),
    ...plan.commands.dev.map(({ directory, run, script }) => inDirectory(directory, script ?? run)),
  ]
  const last = plan.commands.dev.length === 0 ? ['exec sleep infinity'] : []
  const { cpus, memoryMib } = resources
  return {
    ...source,
    working_dir: WORKSPACE,
    volumes: [
      `.:${WORKSPACE}`,
      ...(extras.volumes ?? []).map(
        ({ name, path, isReadOnly }) => `${name}:${inContainer(path)}${isReadOnly ? ':ro' : ''}`,
      ),
    ],
    ...((extras.ephemeral ?? []).length > 0 && {
      tmpfs: (extras.ephemeral ?? []).map(
        ({ path, sizeMib }) => `${inContainer(path)}${sizeMib === undefined ? '' : `:size=${sizeMib}m`}`,
      ),
    }),
    ...(plan.variables.length > 0 && {
      environment: Object.fromEntries(
        plan.variables.map(({ name, value }) => [name, escaped(atService(name, value, known))]),
      ),
    }),
    command: ['sh', '-ec', escaped([...commands, ...last].join('\n'))],
    ...(ports.length > 0 && { ports: ports.map(({ port }) => `127.0.0.1:${port}:${port}`) }),
    ...(known.length > 0 && {
      depends_on: Object.fromEntries(
        known.map(({ name }) => [memberName(name), { condition: 'service_healthy' }]),
      ),
    }),
    ...((cpus !== undefined || memoryMib !== undefined) && {
      deploy: {
        resources: {
          limits: {
            ...(cpus !== undefined && { cpus: String(cpus) }),
            ...(memoryMib !== undefined && { memory: `${memoryMib}M` }),
          },
        },
      },
    }),
  }
}

/** Images of languages run as root. A path without a slash is below the project. */
function inContainer(path: string): string {
  return posix.resolve(WORKSPACE, path.replace(/^~(?=\/)/, '/root'))
}

/** The resolved version, so that the file means the same tomorrow. */
function languageImage({ language, source: { version }, wish }: LanguagePlan): string {
  const number = /\d+(?:\.\d+){0,2}/.exec(version === '' ? wish.value : version)?.[0]
  const [image = OTHERWISE] = IMAGES[language] ?? []
  if (number === undefined) return image
  return language === 'java' || language === 'kotlin'
    ? `${image}:${number.split('.')[0]}-jdk`
    : `${image}:${number}`
}

function aptPackages({ packages }: Plan, others: readonly LanguagePlan[]): string[] {
  const named = packages.filter(({ isOptional }) => !isOptional).map(({ name }) => name)
  const languages = others.flatMap(({ language }) => IMAGES[language]?.[1] ?? [])
  return [...new Set([...named, ...languages])]
}

function inDirectory(directory: string, run: string): string {
  return directory === '' ? run : `(cd ${shellWord(directory)} && ${run})`
}

/** A `$` would begin a variable of compose. */
function escaped(text: string): string {
  return text.replaceAll('$', '$$$$')
}

/** Variables that hold the host of a service alone. */
const HOSTS: readonly (readonly [RegExp, string])[] = [
  [/^(?:PG|POSTGRES|DB_|DATABASE_).*HOST$/, 'postgres'],
  [/^(?:MYSQL|MARIADB).*HOST$/, 'mariadb'],
  [/^REDIS.*HOST$/, 'redis'],
  [/^(?:RABBIT|AMQP).*HOST$/, 'rabbitmq'],
  [/^MEMCACHE.*HOST$/, 'memcached'],
]

/** In the sandbox services are on localhost; with Docker each is a host of its own. */
function atService(variable: string, value: string, services: readonly ServicePlan[]): string {
  if (/^(?:localhost|127\.0\.0\.1)$/.test(value)) {
    const meant = HOSTS.find(([pattern]) => pattern.test(variable))?.[1]
    const service = services.find(({ known }) => known === meant)
    return service ? memberName(service.name) : value
  }
  let text = value
  for (const service of services)
    text = text.replaceAll(
      new RegExp(`(?:localhost|127\\.0\\.0\\.1):${service.port}\\b`, 'g'),
      `${memberName(service.name)}:${insidePort(service)}`,
    )
  return text
}

/** A service with a command of the project runs in the same image. */
function ownCommand(app: Table, { command }: ServicePlan): Table {
  const { ports: _, depends_on: __, environment, ...shared } = app
  const own = Object.entries(command?.variables ?? {}).map(([key, value]) => [key, escaped(value)])
  const variables = { ...(environment as Table | undefined), ...Object.fromEntries(own) }
  return {
    ...shared,
    working_dir: command?.workdir ? `${WORKSPACE}/${command.workdir}` : WORKSPACE,
    ...(Object.keys(variables).length > 0 && { environment: variables }),
    command: ['sh', '-ec', escaped(command?.run ?? '')],
    stop_signal: command?.stopSignal,
  }
}

/** The official images listen on the usual ports. */
function insidePort({ known, port }: ServicePlan): number {
  return KNOWN_SERVICES[known ?? '']?.port ?? port
}

interface Counterpart {
  readonly image: string
  readonly version: string
  readonly data: string
  readonly check: readonly string[]
  readonly environment?: Readonly<Record<string, string>> | undefined
  readonly command?: readonly string[] | undefined
}

function counterpart({ known, account }: ServicePlan): Counterpart | undefined {
  const login = (by: Parameters<typeof loginOf>[1]): ReturnType<typeof loginOf> =>
    loginOf({ account, user: 'user' }, by)
  switch (known) {
    case 'postgres': {
      const { user, password, database } = login('postgres')
      return {
        image: 'postgres',
        version: '17',
        data: '/var/lib/postgresql/data',
        check: ['CMD', 'pg_isready', '-U', user, '-d', database],
        environment: {
          POSTGRES_USER: user,
          POSTGRES_DB: database,
          ...(password === '' ? { POSTGRES_HOST_AUTH_METHOD: 'trust' } : { POSTGRES_PASSWORD: password }),
        },
      }
    }
    case 'redis': {
      const { password } = login('redis')
      return {
        image: 'redis',
        version: '7',
        data: '/data',
        check: ['CMD', 'redis-cli', ...(password === '' ? [] : ['-a', password]), 'ping'],
        ...(password !== '' && { command: ['redis-server', '--requirepass', password] }),
      }
    }
    case 'mariadb': {
      const { user, password, database } = login('mariadb')
      return {
        image: 'mariadb',
        version: '11',
        data: '/var/lib/mysql',
        check: ['CMD', 'healthcheck.sh', '--connect', '--innodb_initialized'],
        environment: {
          MARIADB_DATABASE: database,
          ...(user === 'root' ? {} : { MARIADB_USER: user, MARIADB_PASSWORD: password || user }),
          ...(account?.rootPassword
            ? { MARIADB_ROOT_PASSWORD: account.rootPassword }
            : { MARIADB_ALLOW_EMPTY_ROOT_PASSWORD: '1' }),
        },
      }
    }
    case 'rabbitmq': {
      const { user, password, database } = login('rabbitmq')
      return {
        image: 'rabbitmq',
        version: '4',
        data: '/var/lib/rabbitmq',
        check: ['CMD', 'rabbitmq-diagnostics', '-q', 'ping'],
        environment: {
          RABBITMQ_DEFAULT_USER: user,
          RABBITMQ_DEFAULT_PASS: password,
          ...(database !== '' && { RABBITMQ_DEFAULT_VHOST: database }),
        },
      }
    }
    case 'memcached':
      return {
        image: 'memcached',
        version: '1',
        data: '/data',
        check: ['CMD-SHELL', "echo version | timeout 2 bash -c 'cat > /dev/tcp/127.0.0.1/11211'"],
      }
    default:
      return undefined
  }
}

function knownService(service: ServicePlan, name: string): Table {
  const found = counterpart(service)
  if (!found) return { image: `${name}:latest` }
  const { image, version, data, check, environment = {}, command } = found
  const wanted = /^\d+(?:\.\d+)?/.exec(service.version ?? service.has ?? '')?.[0]
  return {
    image: `${image}:${wanted ?? version}`,
    ...(Object.keys(environment).length > 0 && {
      environment: Object.fromEntries(
        Object.entries(environment).map(([key, value]) => [key, escaped(value)]),
      ),
    }),
    ...(command && { command: command.map(escaped) }),
    volumes: [`${name}-data:${data}`],
    healthcheck: { test: check.map(escaped), interval: '2s', timeout: '5s', retries: 30 },
    ports: [`127.0.0.1:${service.port}:${insidePort(service)}`],
  }
}
