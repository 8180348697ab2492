/** Query strings: each parameter is declared once, with its description. Unknown ones are errors. */
import * as z from 'zod'
import { EVENT_TYPES } from '../../core/event.ts'
import { STATES } from '../../core/lifecycle.ts'
import { KITS } from '../../core/recipe.ts'
import { LABEL_FILTER } from './label.ts'
import { imageRef, providerName } from './sandbox.ts'

/** A whole number in a query. OpenAPI describes it as an integer, not as a string with a pattern. */
function whole(bounds: { readonly min: number; readonly max: number }): z.ZodType<number, string> {
  return z
    .string()
    .regex(/^\d{1,16}$/, 'must be a whole number')
    .transform(Number)
    .refine((n) => n >= bounds.min && n <= bounds.max, `must be from ${bounds.min} to ${bounds.max}`)
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
  .describe('Only entries with this label, as `key=value`. Repeat it to require several labels.')
const limit = whole({ min: 1, max: LONGEST_PAGE })
  .optional()
  .describe(`The most entries to return; ${LONGEST_PAGE} by default.`)
const after = z
  .string()
  .max(64)
  .optional()
  .describe('The cursor from the `agentpod-next` header of the page before.')

export const listSandboxes = z.strictObject({
  label,
  state: z.enum(STATES).optional().describe('Only sandboxes in this state.'),
  name: z.string().max(64).optional().describe('Only sandboxes with this name.'),
  all: flag.optional().describe('Include ended sandboxes.'),
  limit,
  after,
})

export const listSnapshots = z.strictObject({
  label,
  name: z.string().max(64).optional().describe('Only the snapshot with this name.'),
  sandbox: z.string().max(64).optional().describe('Only snapshots of the sandbox with this id.'),
  limit,
  after,
})

const ofProvider = providerName.optional().describe('The provider; the default one when left out.')

export const imagesOf = z.strictObject({ provider: ofProvider })

export const namedImage = z.strictObject({
  ref: imageRef.describe('The reference of the image.'),
  provider: ofProvider,
})

export const prepareBase = z.strictObject({
  kit: z
    .enum(KITS)
    .optional()
    .describe('What the debian base contains besides the system: nothing, or Python, compilers and Node.'),
  image: imageRef.optional().describe('For the base `image`: its reference.'),
  provider: providerName.optional().describe('The provider that prepares it.'),
})

export const toolchainsOf = z.strictObject({
  provider: providerName.optional().describe('The provider whose tools to list.'),
  host: z
    .enum(['true', 'false'])
    .optional()
    .describe(
      'Whether to list the tools of this machine, which takes a while the first time; true by default.',
    ),
})

export const importSnapshotQuery = z.strictObject({
  name: z.string().optional().describe('A name for the snapshot.'),
  provider: providerName.optional().describe('The provider that stores it.'),
})

export const listChanges = z.strictObject({
  path: z
    .string()
    .min(2)
    .max(4096)
    .regex(/^(?:\/[^/\p{Cc}]+)+$/u, 'must be an absolute path')
    .describe('A directory in the sandbox.'),
})

export const listEvents = z.strictObject({
  after: afterSeq.optional().describe('Only events with a greater `seq`.'),
  type: z.enum(EVENT_TYPES).optional().describe('Only events of this type.'),
  follow: flag
    .optional()
    .describe('Stream events as they happen, as server-sent events, until the sandbox has ended.'),
})

export const listRuns = z.strictObject({
  project: z.string().max(64).optional().describe('Only runs of the project with this key.'),
  group: z.string().max(64).optional().describe('Only runs of this group.'),
})

export const listRunEvents = z.strictObject({
  after: afterSeq.optional().describe('Only events with a greater `seq`.'),
  follow: flag
    .optional()
    .describe('Stream events as they happen, as server-sent events, until the run has ended.'),
})

export const listAudit = z.strictObject({
  after: afterSeq.optional().describe('Only entries with a greater `seq`.'),
  limit,
})
