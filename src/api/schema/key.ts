import { z } from 'zod'
import { SCOPES } from '../../core/key.ts'

export const createKey = z.strictObject({
  name: z
    .string()
    .regex(/^[\p{L}\p{N}][\p{L}\p{N} ._@-]{0,62}$/u, 'a key’s name is letters, digits, spaces and ._@-')
    .default('key'),
  scope: z.enum(SCOPES).default('sandboxes'),
  ttlMs: z.number().optional(),
})

export const key = z.object({
  id: z.string(),
  name: z.string(),
  scope: z.enum(SCOPES),
  createdAt: z.string(),
  expiresAt: z.string().nullable(),
  revokedAt: z.string().nullable(),
})
export type KeyView = z.infer<typeof key>

/** The one answer that carries a secret. */
export const createdKey = key.extend({ secret: z.string() })
export type CreatedKeyView = z.infer<typeof createdKey>
