/** The tables `[lifecycle]` and `[ports]`: what people do with the project, and where it listens. */
import { z } from 'zod'
import { about, command, line, path, table } from './values.ts'

const commands = z.array(command).min(1).max(32)
const step = z
  .union([command, commands, z.literal(false)])
  .meta({ kind: 'command, list of commands or `false`' })

const setup = z
  .union([
    command,
    commands,
    z.strictObject({
      run: z
        .union([command, commands])
        .meta({ kind: 'command or list of commands' })
        .meta(about('The command, or several that run in order.')),
      inputs: z
        .array(path.refine((value) => !/[*?[\]]/.test(value), 'must name one file: patterns are not read'))
        .max(256)
        .optional()
        .meta(
          about(
            'Files of the project that the command reads: when one of them changes, it runs again.',
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
        'Installs what the project depends on; its result is kept and used again. As a table it names the files it reads: `{ run = "scripts/bootstrap.sh", inputs = ["scripts/bootstrap.sh"] }`.',
        'as detected',
      ),
    ),
  start: step
    .optional()
    .meta(
      about('Runs at every start of a sandbox, after services are ready and before any command.', 'none'),
    ),
  dev: step
    .optional()
    .meta(about('Runs the project while somebody works on it: `agentpod dev`.', 'as detected')),
  test: step.optional().meta(about('Runs its tests: `agentpod test`.', 'as detected')),
  lint: step.optional().meta(about('Looks for mistakes in its sources.', 'as detected')),
  build: step.optional().meta(about('Builds it.', 'as detected')),
})

export const portsTable = table(
  z
    .string()
    .regex(/^[1-9][0-9]{0,4}$/, 'must be a port, a whole number from 1 to 65535')
    .refine((key) => Number(key) <= 65_535, 'must be a port, a whole number from 1 to 65535'),
  z.strictObject({
    label: line(64).optional().meta(about('What listens there, in a word or two.', 'none')),
    public: z
      .boolean()
      .optional()
      .meta(
        about('Whether whoever has its address may open it; it is asked for before it holds.', '`false`'),
      ),
  }),
  64,
)
