/** Services that AgentPod knows how to run: their data directory, their start, their readiness, and what a program needs to find them. */
import type { Service } from '../../core/environment.ts'

export interface KnownService {
  /** Other names that compose files and people use. */
  readonly also: readonly string[]
  readonly port: number
  /** The tool that says whether the machine itself has it. */
  readonly tool: string
  /** For the step that prepares it, as root, with `$DATA` its directory. `directories` are where its programs may be. */
  prepare(o: ServiceParts): string
  run(o: ServiceParts): string
  ready(o: ServiceParts): string
  readonly stopSignal: Service['stopSignal']
  variables(o: ServiceParts): Readonly<Record<string, string>>
}

export interface ServiceParts {
  readonly data: string
  readonly port: number
  /** Whose programs use it: a role and a database have that name. */
  readonly user: string
  /** Who runs it. */
  readonly daemon: string
}

/** Where services keep their data: below it each has a directory of its own, which lives in snapshots as any file does. */
export const SERVICE_DATA = '/var/lib/agentpod'

/** Debian keeps the servers of PostgreSQL apart from the PATH. */
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
    // What a snapshot of a running server holds is a server that crashed: its lock is nobody's.
    run: ({ data, port }) => `${POSTGRES_PATH}; export PATH
rm -f ${data}/postmaster.pid /tmp/.s.PGSQL.${port}.lock
exec postgres -D ${data} -p ${port}`,
    ready: ({ port, user }) => `${POSTGRES_PATH}; export PATH
pg_isready -q -h 127.0.0.1 -p ${port} -U postgres || exit 1
psql -qAt -h 127.0.0.1 -p ${port} -U postgres -c "select 1 from pg_database where datname = '${user}'" | grep -q 1 && exit 0
psql -q -h 127.0.0.1 -p ${port} -U postgres -c "create role \\"${user}\\" superuser login" -c "create database \\"${user}\\" owner \\"${user}\\""`,
    stopSignal: 'SIGINT',
    variables: ({ port, user }) => ({
      PGHOST: '127.0.0.1',
      PGPORT: String(port),
      PGUSER: user,
      DATABASE_URL: `postgres://${user}@127.0.0.1:${port}/${user}`,
    }),
  },
  redis: {
    also: ['valkey', 'keydb', 'redis-stack'],
    port: 6379,
    tool: 'redis-server',
    prepare: () => ':',
    run: ({ data, port }) =>
      `exec redis-server --bind 127.0.0.1 --port ${port} --dir ${data} --appendonly yes --daemonize no --save 60 1`,
    ready: ({ port }) => `redis-cli -h 127.0.0.1 -p ${port} ping | grep -q PONG`,
    stopSignal: 'SIGTERM',
    variables: ({ port }) => ({ REDIS_URL: `redis://127.0.0.1:${port}` }),
  },
  mariadb: {
    also: ['mysql', 'percona'],
    port: 3306,
    tool: 'mariadb',
    prepare: ({ data, daemon }) =>
      `mariadb-install-db --no-defaults --user=${daemon} --datadir=${data} --auth-root-authentication-method=normal --skip-test-db >/dev/null`,
    run: ({ data, port }) =>
      `PATH="$PATH:/usr/sbin" exec mariadbd --no-defaults --datadir=${data} --bind-address=127.0.0.1 --port=${port} --socket=/tmp/mysql.sock --pid-file=/tmp/mysql.pid`,
    ready: ({ user }) =>
      `mariadb-admin --no-defaults --socket=/tmp/mysql.sock -u root ping >/dev/null && mariadb --no-defaults --socket=/tmp/mysql.sock -u root -e "create database if not exists app; create user if not exists '${user}'@'%'; grant all on *.* to '${user}'@'%'"`,
    stopSignal: 'SIGTERM',
    variables: ({ port, user }) => ({ DATABASE_URL: `mysql://${user}@127.0.0.1:${port}/app` }),
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
    prepare: () => ':',
    run: ({ data, port }) =>
      `export RABBITMQ_MNESIA_BASE=${data}/data RABBITMQ_LOG_BASE=${data}/log RABBITMQ_NODE_PORT=${port} RABBITMQ_NODENAME=rabbit@localhost HOME=${data}; exec /usr/lib/rabbitmq/bin/rabbitmq-server`,
    ready: ({ port }) => `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}'`,
    stopSignal: 'SIGTERM',
    variables: ({ port }) => ({ AMQP_URL: `amqp://guest:guest@127.0.0.1:${port}` }),
  },
}

/** The service that a name means, under any of its names. */
export function knownService(name: string): string | undefined {
  if (Object.hasOwn(KNOWN_SERVICES, name)) return name
  return Object.entries(KNOWN_SERVICES).find(([, { also }]) => also.includes(name))?.[0]
}
