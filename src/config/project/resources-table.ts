/** The table `[resources]`: how much a sandbox of the project has, and how long it lives. */
import * as z from 'zod'
import { about, durationValue, rateValue, sizeValue } from './values.ts'

export const resourcesTable = z.strictObject({
  cpus: z
    .number()
    .min(0.05)
    .max(1024)
    .optional()
    .meta(about('How many CPUs it may use; fractions are allowed.', '`2`')),
  memory: sizeValue('32MiB', '4TiB').optional().meta(about('How much memory it may use.', '`"4GB"`')),
  disk: sizeValue('16MiB', '1024TiB')
    .optional()
    .meta(about('How much it may write, not counting what it starts with.', '`"20GB"`')),
  pids: z
    .int()
    .min(8)
    .max(1_000_000)
    .optional()
    .meta(about('How many processes and threads it may have.', '`1024`')),
  bandwidth: rateValue
    .optional()
    .meta(
      about(
        'Bytes a second in each direction: for its outgoing connections together, and for connections to its ports together.',
        'no limit',
      ),
    ),
  timeout: durationValue('1s', '30d')
    .optional()
    .meta(about('How long it lives.', '`"1h"`; `"24h"` for a sandbox that is kept')),
  idle: durationValue('0s', '30d')
    .optional()
    .meta(
      about(
        'It also ends after this long without use, or is paused if it is kept; `"0s"` means never.',
        '`"0s"`; `"30m"` for a sandbox that is kept',
      ),
    ),
  step_timeout: durationValue('1s', '2h')
    .optional()
    .meta(about('How long one step of building the environment may take.', '`"30m"`')),
})
