/** The tables `[lifecycle]` and `[ports]`: the project's commands and ports. */
import * as z from 'zod'
import { about, commandValue, keyedTable, lineValue, pathValue } from './values.ts'

const commands = z.array(commandValue).min(1).max(32)
const step = z
  .union([commandValue, commands, z.literal(false)])
  .meta({ kind: 'command, list of commands or `false`' })

const setup = z
  .union([
    commandValue,
    commands,
    z.strictObject({
      run: z
        .union([commandValue, commands])
        .meta({ kind: 'command or list of commands' })
        .meta(about('The command, or several that run in order.')),
      inputs: z
        .array(
          pathValue.refine(
            (value) => !/[*?[\]]/.test(value),
            'must name one file: patterns are not supported',
          ),
        )
        .max(256)
        .optional()
        .meta(
          about(
            'Files of the project that the command reads. It runs again when one of them changes.',
            'what is detected',
          ),
        ),
    }),
    z.literal(false),
  ])
  .meta({ kind: 'command, list of commands, table or `false`' })

export const lifecycleTable = z.strictObject({
  setup: setup
    .optional()
    .meta(
      about(
        'Installs the project’s dependencies. The result is cached. A table also names the files it reads: `{ run = "scripts/bootstrap.sh", inputs = ["scripts/bootstrap.sh"] }`.',
        'as detected',
      ),
    ),
  start: step
    .optional()
    .meta(
      about('Runs at every start of a sandbox, when the services are ready and before any command.', 'none'),
    ),
  dev: step.optional().meta(about('Runs the project for development: `agentpod dev`.', 'as detected')),
  test: step.optional().meta(about('Runs the tests: `agentpod test`.', 'as detected')),
  lint: step.optional().meta(about('Runs the linter.', 'as detected')),
  build: step.optional().meta(about('Builds it.', 'as detected')),
})

export const portsTable = keyedTable(
  z
    .string()
    .regex(/^[1-9][0-9]{0,4}$/, 'must be a port, a whole number from 1 to 65535')
    .refine((key) => Number(key) <= 65_535, 'must be a port, a whole number from 1 to 65535'),
  z.strictObject({
    label: lineValue(64).optional().meta(about('A short name for the port.', 'none')),
    public: z
      .boolean()
      .optional()
      .meta(
        about('Whether anyone who has its address may open it. It needs the user’s approval.', '`false`'),
      ),
  }),
  64,
)
