/** What `/v1/snapshots` takes and gives. */
import { z } from 'zod'
import { BASES } from '../../core/environment.ts'
import { labels } from './sandbox.ts'

export const createSnapshot = z.strictObject({
  name: z.string().optional().describe('A name to call it by; unique among the caller’s snapshots.'),
  labels: labels.optional(),
})
export type CreateSnapshot = z.infer<typeof createSnapshot>

export const snapshot = z.object({
  id: z.string(),
  name: z.string().nullable(),
  state: z.enum(['ready', 'lost']).describe('`lost`: its files are gone.'),
  provider: z.string(),
  labels: z.record(z.string(), z.string()),
  base: z.enum(BASES),
  sandboxId: z.string().nullable().describe('Whose files these are; null when they were imported.'),
  parentId: z.string().nullable().describe('The snapshot before it in the same line; it may be gone by now.'),
  sizeBytes: z.number(),
  createdAt: z.string(),
})
export type SnapshotView = z.infer<typeof snapshot>
