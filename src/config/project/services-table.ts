/** The table `[services]`: programs that run beside the commands. */
import { z } from 'zod'
import { STOP_SIGNALS } from '../../core/environment.ts'
import { meant } from '../issue.ts'
import { variables, version } from './environment-table.ts'
import { about, command, path, port, table, time, word } from './values.ts'

/** Services that we know how to run, each with the port it is known by. */
export const KNOWN_SERVICES = {
  postgres: 5432,
  redis: 6379,
  mysql: 3306,
  mariadb: 3306,
  mongodb: 27_017,
  rabbitmq: 5672,
  memcached: 11_211,
  elasticsearch: 9200,
} as const satisfies Readonly<Record<string, number>>
export type KnownService = keyof typeof KNOWN_SERVICES

export function isKnownService(name: string): name is KnownService {
  return Object.hasOwn(KNOWN_SERVICES, name)
}

const readiness = z
  .strictObject({
    command: command.optional().meta(about('A command for /bin/sh; the service is ready once it succeeds.')),
    port: port.optional().meta(about('A port; the service is ready once it takes connections.')),
    timeout: time('1s', '10m')
      .optional()
      .meta(about('How long it may take until the service counts as failed.', '`"30s"`')),
  })
  .refine(
    ({ command: run, port: number }) => (run === undefined) !== (number === undefined),
    'must have either command or port',
  )

export const service = z.strictObject({
  version: version
    .optional()
    .meta(about('Of a service that is known by its name: the version, like `"15"`.', 'what the base has')),
  port: port
    .optional()
    .meta(about('Of a service that is known by its name: the port it listens on.', 'the usual one')),
  run: command
    .optional()
    .meta(about('Of any other service: the command for /bin/sh that runs it, in the foreground.')),
  ready: z
    .union([command, readiness])
    .optional()
    .meta({ kind: 'command or table' })
    .meta(
      about(
        'With `run`: a command that succeeds once the service is ready, or a table with `command` or `port`, and `timeout`.',
        'ready at once',
      ),
    ),
  workdir: path
    .optional()
    .meta(about('With `run`: the directory it runs in, below the project.', 'the project’s directory')),
  variables: variables.optional().meta(about('With `run`: variables for this service alone.', 'none')),
  stop: z
    .enum(STOP_SIGNALS)
    .optional()
    .meta(about('With `run`: the signal that asks it to end.', '`"SIGTERM"`')),
})

/** Keys of a service that only a command has. */
const OF_COMMANDS = ['ready', 'workdir', 'variables', 'stop'] as const

export const servicesTable = table(
  word('a service’s name'),
  z.union([service, z.literal(false)]).meta({ kind: 'table or `false`' }),
  32,
).superRefine((services, ctx) => {
  for (const [name, one] of Object.entries(services)) {
    const add = (key: string | undefined, message: string, hint?: string): void =>
      ctx.addIssue({
        code: 'custom',
        path: key === undefined ? [name] : [name, key],
        message,
        params: { hint },
      })
    if (one === false) continue
    if (one.run === undefined && !isKnownService(name)) {
      add(
        undefined,
        'needs the key run: we know no service of this name',
        meant(name, Object.keys(KNOWN_SERVICES)) ?? `known are ${Object.keys(KNOWN_SERVICES).join(', ')}`,
      )
    } else if (one.run === undefined) {
      for (const key of OF_COMMANDS)
        if (one[key] !== undefined) add(key, 'is only for a service with run', 'leave it out')
    } else {
      if (one.version !== undefined) add('version', 'is only for a service without run', 'leave it out')
      if (one.port !== undefined)
        add('port', 'is only for a service without run', `write ready = { port = ${one.port} }`)
    }
  }
})
