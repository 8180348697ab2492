/** The table `[grants]` of the user's own file: what projects may have unasked, beside the network and secrets. */
import { z } from 'zod'
import { PERMISSION_KINDS } from '../core/permission.ts'
import type { Privileges } from './privileges.ts'
import { about, port } from './project/values.ts'

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
})

export function grantedBy(table: z.infer<typeof grantsTable>): Privileges {
  const { sudo = false, ports = [], permissions = [] } = table
  return { sudo, ports: ports === true ? 'any' : ports === false ? [] : ports, permissions }
}
