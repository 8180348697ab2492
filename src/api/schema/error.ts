import * as z from 'zod'
import { ERROR_CODES } from '../../core/error.ts'

export const errorFields = z.object({
  code: z.enum(ERROR_CODES),
  reason: z.string().describe('A stable dotted word that says more than the code, such as `sandbox.ended`.'),
  message: z.string(),
  hint: z.string().optional().describe('What to do next.'),
  details: z.record(z.string(), z.unknown()).optional(),
  incident: z.string().optional().describe('The id of an internal failure in the server’s log.'),
})

/** Every error of `/v1`, whatever its status. */
export const errorAnswer = z.object({ error: errorFields })

export const stopping = z.object({ stopping: z.literal(true) })

export const baseProgress = z.union([
  z.object({ progress: z.string() }),
  z.object({ ready: z.literal(true) }),
  errorAnswer,
])
