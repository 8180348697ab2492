/** Query strings: each parameter is declared once, with its words for the description. Unknown ones are errors. */
import { z } from 'zod'
import { EVENT_TYPES } from '../../core/event.ts'
import { STATES } from '../../core/lifecycle.ts'
import { KITS } from '../../core/recipe.ts'
import { LABEL_FILTER } from './label.ts'
import { imageRef, providerName } from './sandbox.ts'

/** A whole number in a query. The description tells what it stands for, not how it is spelled. */
function whole(bounds: { readonly min: number; readonly max: number }): z.ZodType<number, string> {
  return z
    .string()
    .regex(/^\d{1,16}$/, 'is not a whole number')
    .transform(Number)
    .refine((n) => n >= bounds.min && n <= bounds.max, `is from ${bounds.min} to ${bounds.max}`)
    .meta({ type: 'integer', minimum: bounds.min, maximum: bounds.max, pattern: undefined })
}

const flag = z
  .enum(['true', 'false'])
  .transform((text) => text === 'true')
  .meta({ type: 'boolean', enum: undefined })

export const LONGEST_PAGE = 1000
const afterSeq = whole({ min: 0, max: Number.MAX_SAFE_INTEGER })

const label = z
  .array(z.string().regex(LABEL_FILTER, 'a label filter is key=value'))
  .max(64)
  .optional()
  .describe('Only those with this label, as `key=value`; may be repeated, and then all must hold.')
const limit = whole({ min: 1, max: LONGEST_PAGE })
  .optional()
  .describe(`At most so many; ${LONGEST_PAGE} when left out.`)
const after = z
  .string()
  .max(64)
  .optional()
  .describe('Where the page before ended, as its `agentpod-next` header says.')

export const listSandboxes = z.strictObject({
  label,
  state: z.enum(STATES).optional().describe('Only those in this state.'),
  name: z.string().max(64).optional().describe('Only those of this name.'),
  all: flag.optional().describe('Ended ones too.'),
  limit,
  after,
})

export const listSnapshots = z.strictObject({
  label,
  name: z.string().max(64).optional().describe('Only the one of this name.'),
  sandbox: z.string().max(64).optional().describe('Only those taken of the sandbox of this id.'),
  limit,
  after,
})

export const prepareBase = z.strictObject({
  kit: z
    .enum(KITS)
    .optional()
    .describe('What the debian base has besides the system: nothing, or Python, compilers and Node.'),
  image: imageRef.optional().describe('Of the base `image`: its reference.'),
  provider: providerName.optional().describe('Where it is made ready.'),
})

export const toolchainsOf = z.strictObject({
  provider: providerName.optional().describe('Of this provider.'),
})

export const importSnapshot = z.strictObject({
  name: z.string().optional().describe('A name to call it by.'),
  provider: providerName.optional().describe('Where it is kept.'),
})

export const listEvents = z.strictObject({
  after: afterSeq.optional().describe('Only events with a greater `seq`.'),
  type: z.enum(EVENT_TYPES).optional().describe('Only events of this type.'),
  follow: flag
    .optional()
    .describe('Stay and stream events as they happen, as server-sent events, until the sandbox has ended.'),
})

export const listRuns = z.strictObject({
  project: z.string().max(64).optional().describe('Only those of the project with this key.'),
  group: z.string().max(64).optional().describe('Only those that were started together.'),
})

export const listRunEvents = z.strictObject({
  after: afterSeq.optional().describe('Only events with a greater `seq`.'),
  follow: flag
    .optional()
    .describe('Stay and stream events as they happen, as server-sent events, until the run has ended.'),
})

export const listAudit = z.strictObject({
  after: afterSeq.optional().describe('Only entries with a greater `seq`.'),
  limit,
})
