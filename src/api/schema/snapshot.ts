/** Requests and answers of `/v1/snapshots`. */
import * as z from 'zod'
import { BASES } from '../../core/environment.ts'
import { labels } from './sandbox.ts'

export const createSnapshot = z.strictObject({
  name: z.string().optional().describe('A name that is unique among the caller’s snapshots.'),
  labels: labels.optional(),
  memory: z
    .boolean()
    .optional()
    .describe('Keep the memory of its processes too. Needs a provider whose snapshots are `memory`.'),
})
export type CreateSnapshot = z.infer<typeof createSnapshot>

export const snapshot = z.object({
  id: z.string(),
  name: z.string().nullable(),
  state: z.enum(['ready', 'lost']).describe('`lost`: its files are gone.'),
  provider: z.string(),
  labels: z.record(z.string(), z.string()),
  base: z.enum(BASES),
  sandboxId: z.string().nullable().describe('The sandbox it was taken of; null if it was imported.'),
  parentId: z
    .string()
    .nullable()
    .describe('The previous snapshot of the same sandbox; it may have been removed since.'),
  sizeBytes: z.number(),
  fidelity: z
    .enum(['files', 'memory'])
    .describe('`memory`: it has the memory of its processes too, and a copy continues them.'),
  memoryBytes: z.number().describe('The size of that memory; 0 without.'),
  createdAt: z.string(),
})
export type SnapshotView = z.infer<typeof snapshot>
