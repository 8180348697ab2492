/** The table `[grants]` of the user's own file: what projects may have unasked, beside the network and secrets. */
import { z } from 'zod'
import { LONGEST_IMAGE_REF, parseImageRef } from '../core/image-ref.ts'
import { PERMISSION_KINDS } from '../core/permission.ts'
import type { Privileges } from './privileges.ts'
import { about, port, taken } from './project/values.ts'

export const grantsTable = z.strictObject({
  sudo: z
    .boolean()
    .optional()
    .meta(about('Whether projects may let programs inside become root inside.', '`false`')),
  ports: z
    .union([z.boolean(), z.array(port).max(64)])
    .optional()
    .meta(
      about('Which ports projects may open to whoever has their address: a list, or `true` for any.', 'none'),
    ),
  permissions: z
    .array(z.enum(PERMISSION_KINDS))
    .max(PERMISSION_KINDS.length)
    .optional()
    .meta({ kind: 'list of permissions' })
    .meta(about('What agents may do without asking where a project says so.', 'none')),
  images: z
    .union([
      z.boolean(),
      z.array(z.string().max(LONGEST_IMAGE_REF).superRefine(taken(parseImageRef))).max(64),
    ])
    .optional()
    .meta(
      about(
        'Which container images projects may be put on: a list, each as the project writes it, or `true` for any.',
        'none',
      ),
    ),
})

export function grantedBy(table: z.infer<typeof grantsTable>): Privileges {
  const { sudo = false, permissions = [] } = table
  const images = listOf(table.images)
  return { sudo, ports: listOf(table.ports), permissions, ...(images.length > 0 && { images }) }
}

function listOf<T>(said: boolean | readonly T[] = []): 'any' | readonly T[] {
  if (typeof said === 'boolean') return said ? 'any' : []
  return said
}
