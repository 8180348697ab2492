/** The table `[grants]` of the user's file: what projects get without asking, besides network and secrets. */
import * as z from 'zod'
import { LONGEST_IMAGE_REF, parseImageRef } from '../../core/image-ref.ts'
import { PERMISSION_KINDS } from '../../core/permission.ts'
import { about, acceptedBy, pathValue, portValue } from '../project/values.ts'
import type { Privileges } from './privileges.ts'

export const grantsTable = z.strictObject({
  sudo: z
    .boolean()
    .optional()
    .meta(about('Whether projects may let programs in the sandbox become root there.', '`false`')),
  ports: z
    .union([z.boolean(), z.array(portValue).max(64)])
    .optional()
    .meta(
      about(
        'Which ports projects may open to anyone who has their address: a list, or `true` for any.',
        'none',
      ),
    ),
  permissions: z
    .array(z.enum(PERMISSION_KINDS))
    .max(PERMISSION_KINDS.length)
    .optional()
    .meta({ kind: 'list of permissions' })
    .meta(about('What agents may do without asking if a project says so.', 'none')),
  images: z
    .union([
      z.boolean(),
      z.array(z.string().max(LONGEST_IMAGE_REF).superRefine(acceptedBy(parseImageRef))).max(64),
    ])
    .optional()
    .meta(
      about(
        'Which container images projects may use as a base: a list, each written as in the project, or `true` for any.',
        'none',
      ),
    ),
  dockerfiles: z
    .union([z.boolean(), z.array(pathValue).max(64)])
    .optional()
    .meta(
      about(
        'Which Dockerfiles projects may build as a base: a list of paths, or `true` for any. The images that they name need a grant as well.',
        'none',
      ),
    ),
  devcontainers: z
    .boolean()
    .optional()
    .meta(
      about(
        'Whether projects may use what their devcontainer.json asks for besides its image: Features, whose scripts run as root in sandboxes, and `initializeCommand`, which runs in a sandbox.',
        '`false`',
      ),
    ),
})

export function grantedBy(table: z.infer<typeof grantsTable>): Privileges {
  const { sudo = false, permissions = [] } = table
  const images = listOf(table.images)
  const dockerfiles = listOf(table.dockerfiles)
  return {
    sudo,
    ports: listOf(table.ports),
    permissions,
    ...(images.length > 0 && { images }),
    ...(dockerfiles.length > 0 && { dockerfiles }),
    ...(table.devcontainers === true && { devcontainer: 'any' as const }),
  }
}

function listOf<T>(said: boolean | readonly T[] = []): 'any' | readonly T[] {
  if (typeof said === 'boolean') return said ? 'any' : []
  return said
}
