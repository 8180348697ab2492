import * as z from 'zod'
import { ISOLATIONS } from '../../core/capability.ts'
import { SCOPES } from '../../core/key.ts'
import { NETWORK_MODES } from '../../core/network.ts'

export const createKey = z.strictObject({
  name: z
    .string()
    .regex(
      /^[\p{L}\p{N}][\p{L}\p{N} ._@-]{0,62}$/u,
      'a key’s name may contain letters, digits, spaces and ._@-',
    )
    .default('key'),
  scope: z.enum(SCOPES).default('sandboxes'),
  ttlMs: z.number().optional(),
  isolation: z
    .enum(ISOLATIONS)
    .optional()
    .describe('The lowest level of isolation of its sandboxes. A request can only raise it.'),
  network: z
    .strictObject({
      mode: z.enum(NETWORK_MODES),
      allow: z
        .array(z.string().max(2400))
        .max(512)
        .optional()
        .describe('The only rules that its sandboxes may use; any rule when left out.'),
    })
    .optional()
    .describe('The widest network access of its sandboxes; `allowlist` by default.'),
})

export type CreateKey = z.infer<typeof createKey>

export const key = z.object({
  id: z.string(),
  name: z.string(),
  scope: z.enum(SCOPES),
  network: z.object({ mode: z.enum(NETWORK_MODES), allow: z.array(z.string()).nullable() }),
  isolation: z.enum(ISOLATIONS).nullable(),
  createdAt: z.string(),
  expiresAt: z.string().nullable(),
  revokedAt: z.string().nullable(),
})
export type KeyView = z.infer<typeof key>

/** The only answer that contains the secret. */
export const createdKey = key.extend({ secret: z.string() })
export type CreatedKeyView = z.infer<typeof createdKey>
