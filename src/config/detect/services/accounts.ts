/** Users, passwords and databases that compose files and CI pass to a service. */
import { isObject, type JsonObject } from '../../../util/untrusted-json.ts'
import type { ServiceAccount } from '../finding.ts'
import { stringsAt, textAt } from '../project-files/parsed-file.ts'

/** The variables that images read, by the service. The first that is there counts. */
const VARIABLES: Readonly<Record<string, Readonly<Record<keyof ServiceAccount, readonly string[]>>>> = {
  postgres: {
    user: ['POSTGRES_USER', 'POSTGRESQL_USERNAME'],
    password: ['POSTGRES_PASSWORD', 'POSTGRESQL_PASSWORD'],
    database: ['POSTGRES_DB', 'POSTGRESQL_DATABASE'],
    rootPassword: [],
  },
  mysql: {
    user: ['MYSQL_USER', 'MARIADB_USER'],
    password: ['MYSQL_PASSWORD', 'MARIADB_PASSWORD'],
    database: ['MYSQL_DATABASE', 'MARIADB_DATABASE'],
    rootPassword: ['MYSQL_ROOT_PASSWORD', 'MARIADB_ROOT_PASSWORD'],
  },
  redis: {
    user: [],
    password: ['REDIS_PASSWORD', 'VALKEY_PASSWORD'],
    database: [],
    rootPassword: [],
  },
  rabbitmq: {
    user: ['RABBITMQ_DEFAULT_USER', 'RABBITMQ_USERNAME'],
    password: ['RABBITMQ_DEFAULT_PASS', 'RABBITMQ_PASSWORD'],
    database: ['RABBITMQ_DEFAULT_VHOST', 'RABBITMQ_VHOST'],
    rootPassword: [],
  },
}

const SAME: Readonly<Record<string, string>> = { mariadb: 'mysql', valkey: 'redis' }

/**
 * SECURITY: CF-02. These values become parts of scripts, SQL and URLs, so they must not contain characters
 * with a meaning there.
 */
const NAME = /^[A-Za-z_][\w-]{0,62}$/
const PASSWORD = /^[\w!*+,.^~=-]{1,128}$/

/** Undefined if there is nothing usable. `lookUp` resolves `${NAME}` as compose does. */
export function serviceAccount(
  service: string,
  variables: JsonObject,
  command: string,
  lookUp: (name: string) => string | undefined,
): ServiceAccount | undefined {
  const names = VARIABLES[SAME[service] ?? service]
  if (!names) return undefined
  const read = (keys: readonly string[], grammar: RegExp): string | undefined =>
    keys.map((key) => filledIn(textAt(variables, key) ?? '', lookUp)).find((value) => grammar.test(value))
  const asked = /--requirepass[\s=]{1,5}(\S{1,128})/.exec(command)?.[1] ?? ''
  const account = {
    user: read(names.user, NAME),
    password: read(names.password, PASSWORD) ?? passwordOf(filledIn(asked, lookUp)),
    database: read(names.database, NAME),
    rootPassword: read(names.rootPassword, PASSWORD),
  }
  return Object.values(account).every((value) => value === undefined) ? undefined : account
}

function passwordOf(text: string): string | undefined {
  return PASSWORD.test(text) ? text : undefined
}

/** `${NAME}`, `${NAME:-default}` and `$NAME` as in compose files, if that is the whole value. */
function filledIn(value: string, lookUp: (name: string) => string | undefined): string {
  const text = value.replaceAll(/^["']|["']$/g, '')
  const [, name = '', fallback = ''] =
    /^\$(?:\{(?=\w)|(?=\w{1,80}$))(\w{1,80})(?::?-([^{}]{0,128})|:?\?[^{}]{0,200})?\}?$/.exec(text) ?? []
  return name === '' ? text : (lookUp(name) ?? fallback)
}

/** `environment` of compose: a table, or a list of `NAME=value`. */
export function serviceEnvironment(service: JsonObject): JsonObject {
  const { environment } = service
  if (isObject(environment)) return environment
  return Object.fromEntries(
    stringsAt(service, 'environment')
      .slice(0, 200)
      .map((one) => [one.split('=', 1)[0] ?? '', one.slice(one.indexOf('=') + 1)]),
  )
}

/** `command` of compose: a text, or a list of words. */
export function serviceCommand(service: JsonObject): string {
  return (textAt(service, 'command') ?? stringsAt(service, 'command').slice(0, 200).join(' ')).slice(0, 2000)
}
