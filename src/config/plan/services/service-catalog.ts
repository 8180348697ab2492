/**
 * Services that AgentPod knows how to run: data directory, start command, readiness check, and variables for
 * clients.
 */
import type { Service } from '../../../core/environment.ts'
import { shellWord } from '../../../util/shell/shell-word.ts'
import type { ServiceAccount } from '../../detect/finding.ts'

export interface KnownService {
  /** Other names in compose files and agentpod.toml. */
  readonly also: readonly string[]
  readonly port: number
  /** The tool that shows whether the machine has it. */
  readonly tool: string
  /** Shell commands that prepare its data directory, run as root. */
  prepare(o: ServiceParts): string
  run(o: ServiceParts): string
  ready(o: ServiceParts): string
  readonly stopSignal: Service['stopSignal']
  variables(o: ServiceParts): Readonly<Record<string, string>>
}

export interface ServiceParts {
  readonly data: string
  readonly port: number
  /** The user of the client programs; a role and a database have the same name. */
  readonly user: string
  /** The user that runs the server. */
  readonly daemon: string
  /** The login from the project's files. */
  readonly account: ServiceAccount | undefined
}

/** The login for clients: the project's account, or one with the user's name. */
export function loginOf(
  { account, user }: Pick<ServiceParts, 'account' | 'user'>,
  by: 'postgres' | 'mariadb' | 'redis' | 'rabbitmq',
): { readonly user: string; readonly password: string; readonly database: string } {
  const { password = '' } = account ?? {}
  switch (by) {
    case 'postgres': {
      const name = account ? (account.user ?? 'postgres') : user
      return { user: name, password, database: account?.database ?? name }
    }
    case 'mariadb': {
      const isRoot = account !== undefined && account.user === undefined && account.rootPassword !== undefined
      return {
        user: isRoot ? 'root' : (account?.user ?? user),
        password: isRoot ? (account.rootPassword ?? '') : account?.user === undefined ? '' : password,
        database: account?.database ?? 'app',
      }
    }
    case 'redis':
      return { user: '', password, database: '' }
    case 'rabbitmq':
      return {
        user: account?.user ?? 'guest',
        password: password || 'guest',
        database: account?.database ?? '',
      }
  }
}

/** `user:password@` of a URL; empty without a user. */
export function loginText({ user, password }: { readonly user: string; readonly password: string }): string {
  const secret = password === '' ? '' : `:${encodeURIComponent(password)}`
  return user === '' && secret === '' ? '' : `${user}${secret}@`
}

/** Services keep their data below it, each in its own directory; snapshots include it. */
export const SERVICE_DATA = '/var/lib/agentpod'

/** Debian does not put the PostgreSQL servers on the PATH. */
const POSTGRES_PATH =
  'PATH="$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1):/usr/local/pgsql/bin:$PATH"'

export const KNOWN_SERVICES: Readonly<Record<string, KnownService>> = {
  postgres: {
    also: ['postgresql', 'pg', 'postgis', 'pgvector', 'timescaledb'],
    port: 5432,
    tool: 'postgres',
    prepare: ({ data, daemon }) => `${POSTGRES_PATH}; export PATH
setpriv --reuid ${daemon} --regid ${daemon} --clear-groups initdb -D ${data} -U postgres --auth=trust --encoding=UTF8 --locale=C.UTF-8 >/dev/null
cat >> ${data}/postgresql.conf <<'CONF'
listen_addresses = '127.0.0.1'
unix_socket_directories = '/tmp'
dynamic_shared_memory_type = mmap
max_connections = 50
shared_buffers = 32MB
CONF`,
    // A snapshot of a running server looks like a crashed one: its lock file is stale.
    run: ({ data, port }) => `${POSTGRES_PATH}; export PATH
rm -f ${data}/postmaster.pid /tmp/.s.PGSQL.${port}.lock
exec postgres -D ${data} -p ${port}`,
    ready: (parts) => `${POSTGRES_PATH}; export PATH
pg_isready -q -h 127.0.0.1 -p ${parts.port} -U postgres -d postgres || exit 1
ask() { psql -qAt -h 127.0.0.1 -p ${parts.port} -U postgres -d postgres "$@"; }
${postgresAccount(parts.user, parts.user, '')}${parts.account ? postgresProject(parts) : ''}`,
    stopSignal: 'SIGINT',
    variables: (parts) => {
      const login = loginOf(parts, 'postgres')
      return {
        PGHOST: '127.0.0.1',
        PGPORT: String(parts.port),
        PGUSER: login.user,
        ...(parts.account && { PGDATABASE: login.database }),
        ...(login.password !== '' && { PGPASSWORD: login.password }),
        DATABASE_URL: `postgres://${loginText(login)}127.0.0.1:${parts.port}/${login.database}`,
      }
    },
  },
  redis: {
    also: ['valkey', 'keydb', 'redis-stack'],
    port: 6379,
    tool: 'redis-server',
    prepare: () => ':',
    run: ({ data, port, account }) =>
      `exec redis-server --bind 127.0.0.1 --port ${port} --dir ${data} --appendonly yes --daemonize no --save 60 1${account?.password ? ` --requirepass ${shellWord(account.password)}` : ''}`,
    ready: ({ port, account }) =>
      `${account?.password ? `export REDISCLI_AUTH=${shellWord(account.password)}; ` : ''}redis-cli -h 127.0.0.1 -p ${port} ping | grep -q PONG`,
    stopSignal: 'SIGTERM',
    variables: (parts) => ({
      REDIS_URL: `redis://${loginText(loginOf(parts, 'redis'))}127.0.0.1:${parts.port}`,
    }),
  },
  mariadb: {
    also: ['mysql', 'percona'],
    port: 3306,
    tool: 'mariadb',
    prepare: ({ data, daemon }) =>
      `mariadb-install-db --no-defaults --user=${daemon} --datadir=${data} --auth-root-authentication-method=normal --skip-test-db >/dev/null`,
    run: ({ data, port }) =>
      `PATH="$PATH:/usr/sbin" exec mariadbd --no-defaults --datadir=${data} --bind-address=127.0.0.1 --port=${port} --socket=/tmp/mysql.sock --pid-file=/tmp/mysql.pid --skip-name-resolve`,
    ready: (parts) =>
      `mariadb-admin --no-defaults --socket=/tmp/mysql.sock -u root ping >/dev/null && mariadb --no-defaults --socket=/tmp/mysql.sock -u root -e ${shellWord(mariadbAccounts(parts))}`,
    stopSignal: 'SIGTERM',
    variables: (parts) => {
      const login = loginOf(parts, 'mariadb')
      return { DATABASE_URL: `mysql://${loginText(login)}127.0.0.1:${parts.port}/${login.database}` }
    },
  },
  memcached: {
    also: [],
    port: 11211,
    tool: 'memcached',
    prepare: () => ':',
    run: ({ port }) => `exec memcached -l 127.0.0.1 -p ${port}`,
    ready: ({ port }) => `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}'`,
    stopSignal: 'SIGTERM',
    variables: () => ({}),
  },
  rabbitmq: {
    also: [],
    port: 5672,
    tool: 'rabbitmq',
    prepare: ({ data, account }) => (account ? rabbitmqDefaults(data, account) : ':'),
    run: ({ data, port, account }) =>
      `${account ? `export RABBITMQ_CONFIG_FILE=${data}/rabbitmq.conf; ` : ''}export RABBITMQ_MNESIA_BASE=${data}/data RABBITMQ_LOG_BASE=${data}/log RABBITMQ_NODE_PORT=${port} RABBITMQ_NODENAME=rabbit@localhost HOME=${data}; exec /usr/lib/rabbitmq/bin/rabbitmq-server`,
    ready: ({ port }) => `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}'`,
    stopSignal: 'SIGTERM',
    variables: (parts) => {
      const login = loginOf(parts, 'rabbitmq')
      const host = login.database === '' ? '' : `/${login.database}`
      return { AMQP_URL: `amqp://${loginText(login)}127.0.0.1:${parts.port}${host}` }
    },
  },
}

/** Creates a role and its database if they do not exist. */
function postgresAccount(role: string, database: string, password: string): string {
  const secret = password === '' ? '' : ` password '${password}'`
  const missing = (sql: string): string => `ask -c ${shellWord(sql)} | grep -q 1 || `
  return `${missing(`select 1 from pg_roles where rolname = '${role}'`)}ask -c ${shellWord(`create role "${role}" superuser login${secret}`)} || exit 1
${missing(`select 1 from pg_database where datname = '${database}'`)}ask -c ${shellWord(`create database "${database}" owner "${role}"`)} || exit 1
`
}

function postgresProject(parts: ServiceParts): string {
  const { user, password, database } = loginOf(parts, 'postgres')
  return postgresAccount(user, database, password)
}

function mariadbAccounts({ user, account }: ServiceParts): string {
  const quoted = (text: string | undefined): string => `identified by '${text ?? ''}'`
  return [
    `create database if not exists \`${account?.database ?? 'app'}\``,
    `create user if not exists '${user}'@'%'`,
    `grant all on *.* to '${user}'@'%'`,
    ...(account?.user
      ? [
          `create or replace user '${account.user}'@'%' ${quoted(account.password)}`,
          `grant all on *.* to '${account.user}'@'%'`,
        ]
      : []),
    // Only over TCP: the socket stays without a password, so that this script can log in.
    ...(account?.rootPassword
      ? [
          `create or replace user 'root'@'127.0.0.1' ${quoted(account.rootPassword)}`,
          `grant all on *.* to 'root'@'127.0.0.1' with grant option`,
        ]
      : []),
  ].join('; ')
}

function rabbitmqDefaults(data: string, { user, password, database }: ServiceAccount): string {
  const lines = [
    ...(user ? [`default_user = ${user}`] : []),
    ...(password ? [`default_pass = ${password}`] : []),
    ...(database ? [`default_vhost = ${database}`] : []),
  ]
  return `printf '%s\\n' ${lines.map(shellWord).join(' ')} > ${data}/rabbitmq.conf\nchmod 644 ${data}/rabbitmq.conf`
}

/** The known service of this name or alias. */
export function knownService(name: string): string | undefined {
  if (Object.hasOwn(KNOWN_SERVICES, name)) return name
  return Object.entries(KNOWN_SERVICES).find(([, { also }]) => also.includes(name))?.[0]
}
