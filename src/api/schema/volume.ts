/** Requests and answers of `/v1/volumes`, and volumes in other requests. */
import * as z from 'zod'
import { LARGEST_EPHEMERAL_MIB, MOST_EPHEMERAL } from '../../core/volume/ephemeral.ts'
import { MOST_VOLUMES } from '../../core/volume/volume.ts'

/** A volume that a sandbox mounts. Paths and names are checked by the engine, with hints. */
export const volumeRequests = z
  .array(
    z.strictObject({
      volume: z.string().max(64).describe('The name or id of a volume of the caller.'),
      path: z.string().max(4096).describe('An absolute path inside; missing directories are made.'),
      readOnly: z.boolean().optional(),
    }),
  )
  .max(MOST_VOLUMES)
  .describe('Volumes to mount. Their content is left out of snapshots and forks.')

export const ephemeralDirectories = z
  .array(
    z.strictObject({
      path: z.string().max(4096).describe('An absolute path inside; missing directories are made.'),
      sizeMib: z.int().min(1).max(LARGEST_EPHEMERAL_MIB).optional().describe('By default as much as /tmp.'),
    }),
  )
  .max(MOST_EPHEMERAL)
  .describe(
    'Directories in memory that are empty at every start and no part of snapshots. Copies of the sandbox have them too.',
  )

export const mountedVolume = z.object({
  id: z.string(),
  name: z.string(),
  path: z.string(),
  readOnly: z.boolean(),
})

export const createVolume = z.strictObject({
  name: z.string().describe('A name that is unique among the caller’s volumes.'),
  sizeMib: z.number().optional().describe('The most that it holds; by default only the disk limits it.'),
  provider: z
    .string()
    .max(32)
    .optional()
    .describe('The provider that keeps it; sandboxes of other providers cannot mount it.'),
})
export type CreateVolume = z.infer<typeof createVolume>

export const volume = z.object({
  id: z.string(),
  name: z.string(),
  owner: z.string().describe('The id of a key, or `local`.'),
  provider: z.string(),
  sizeMib: z.number().nullable(),
  limit: z
    .object({ level: z.enum(['enforced', 'soft', 'none']), reason: z.string().optional() })
    .describe('Whether the size is enforced, and if not, why.'),
  usedBytes: z.number().nullable().describe('Null if the provider does not answer.'),
  sandboxes: z.array(z.string()).describe('The sandboxes that mount it, in any state but destroyed.'),
  createdAt: z.string(),
})
export type VolumeView = z.infer<typeof volume>
