/** The table `[sandboxes]` of the user's `config.toml`. */
import * as z from 'zod'
import { about } from './project/values.ts'

export const sandboxesTable = z.strictObject({
  kept: z
    .int()
    .min(0)
    .max(10_000)
    .optional()
    .meta(about('How many stopped sandboxes may be kept; a new one is refused beyond that.', '`50`')),
})
