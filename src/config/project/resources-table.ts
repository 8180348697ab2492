/** The table `[resources]`: how much a sandbox of the project has, and how long it lives. */
import { z } from 'zod'
import { about, size, time } from './values.ts'

export const resourcesTable = z.strictObject({
  cpus: z
    .number()
    .min(0.05)
    .max(1024)
    .optional()
    .meta(about('How many processors it may use at once; a fraction is fine.', '`2`')),
  memory: size('32MiB', '4TiB').optional().meta(about('How much memory it may use.', '`"4GB"`')),
  disk: size('16MiB', '1024TiB')
    .optional()
    .meta(about('How much it may write beyond what it begins with.', '`"20GB"`')),
  pids: z
    .int()
    .min(8)
    .max(1_000_000)
    .optional()
    .meta(about('How many processes and threads it may have.', '`1024`')),
  timeout: time('1s', '30d').optional().meta(about('How long it lives.', '`"1h"`')),
  idle: time('0s', '30d')
    .optional()
    .meta(about('Its time is up too when nobody has used it for this long; `"0s"` means never.', '`"0s"`')),
  step_timeout: time('1s', '2h')
    .optional()
    .meta(about('How long one step of building the environment may take.', '`"30m"`')),
})
