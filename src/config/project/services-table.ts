/** The table `[services]`: programs that run beside the commands. */
import * as z from 'zod'
import { STOP_SIGNALS } from '../../core/environment.ts'
import { didYouMean } from '../toml/schema-problems.ts'
import { variablesTable, versionValue } from './environment-table.ts'
import { about, commandValue, durationValue, keyedTable, pathValue, portValue, wordValue } from './values.ts'

/** Services that we know how to run, each with the port it is known by. */
export const SERVICE_NAMES = {
  postgres: 5432,
  redis: 6379,
  mysql: 3306,
  mariadb: 3306,
  mongodb: 27_017,
  rabbitmq: 5672,
  memcached: 11_211,
  elasticsearch: 9200,
} as const satisfies Readonly<Record<string, number>>
export type ServiceName = keyof typeof SERVICE_NAMES

export function isServiceName(name: string): name is ServiceName {
  return Object.hasOwn(SERVICE_NAMES, name)
}

const readiness = z
  .strictObject({
    command: commandValue
      .optional()
      .meta(about('A command for /bin/sh; the service is ready once it succeeds.')),
    port: portValue.optional().meta(about('A port; the service is ready once it takes connections.')),
    timeout: durationValue('1s', '10m')
      .optional()
      .meta(about('How long the service may take before it counts as failed.', '`"30s"`')),
  })
  .refine(
    ({ command: run, port: number }) => (run === undefined) !== (number === undefined),
    'must have either command or port',
  )

export const serviceValue = z.strictObject({
  enabled: z
    .boolean()
    .optional()
    .meta(
      about(
        'Whether it runs; `false` keeps its other keys and is otherwise the same as `NAME = false`.',
        '`true`',
      ),
    ),
  version: versionValue
    .optional()
    .meta(about('For a known service: the version, like `"15"`.', 'what the base has')),
  port: portValue.optional().meta(about('For a known service: the port it listens on.', 'the usual one')),
  run: commandValue
    .optional()
    .meta(about('For any other service: the command for /bin/sh that runs it in the foreground.')),
  ready: z
    .union([commandValue, readiness])
    .optional()
    .meta({ kind: 'command or table' })
    .meta(
      about(
        'With `run`: a command that succeeds once the service is ready, or a table with `command` or `port`, and `timeout`.',
        'ready at once',
      ),
    ),
  workdir: pathValue
    .optional()
    .meta(about('With `run`: the directory it runs in, below the project.', 'the project’s directory')),
  variables: variablesTable.optional().meta(about('With `run`: variables for this service alone.', 'none')),
  stop: z
    .enum(STOP_SIGNALS)
    .optional()
    .meta(about('With `run`: the signal that asks it to end.', '`"SIGTERM"`')),
})

/** Keys of a service that only a command has. */
const OF_COMMANDS = ['ready', 'workdir', 'variables', 'stop'] as const

export const servicesTable = keyedTable(
  wordValue('a service’s name'),
  z.union([serviceValue, z.literal(false)]).meta({ kind: 'table or `false`' }),
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
    if (one.run === undefined && !isServiceName(name)) {
      if (one.enabled === false) continue
      add(
        undefined,
        'needs the key run: this is not a known service',
        didYouMean(name, Object.keys(SERVICE_NAMES)) ?? `known are ${Object.keys(SERVICE_NAMES).join(', ')}`,
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
