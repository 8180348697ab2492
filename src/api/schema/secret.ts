/** Requests and answers of `/v1/secrets`. SECURITY: no answer contains a value. */
import * as z from 'zod'
import { budget } from './network.ts'

const value = z.string().max(16 * 1024)

const scheme = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('bare') }),
  z.strictObject({ kind: z.literal('prefix'), prefix: z.string().max(32) }),
  z.strictObject({ kind: z.literal('basic'), user: z.string().max(128) }),
])

const slot = {
  hosts: z
    .array(z.string().max(255))
    .min(1)
    .max(16)
    .describe('Exact host names; the value is sent to no other host.'),
  port: z
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe('443 by default. The value is sent over verified TLS only.'),
  header: z.string().max(64).optional().describe('`authorization` by default.'),
  scheme: scheme
    .optional()
    .describe(
      'How the header is written: by default `Bearer` and the value in `authorization`, otherwise the bare value.',
    ),
  methods: z.array(z.string().max(32)).min(1).max(16).optional(),
  paths: z.array(z.string().max(2048)).min(1).max(16).optional(),
  budget: budget.optional(),
} as const

export const setSecret = z.strictObject({
  name: z.string().max(64),
  value,
  variable: z
    .string()
    .max(128)
    .optional()
    .describe('The variable that holds the placeholder; by default the name of the secret.'),
  ...slot,
})

export const rotateSecret = z.strictObject({ value })

export const secretView = z.object({
  name: z.string(),
  variable: z.string(),
  hosts: z.array(z.string()),
  port: z.number(),
  header: z.string(),
  scheme,
  methods: z.array(z.string()).nullable(),
  paths: z.array(z.string()).nullable(),
  version: z.number(),
  createdAt: z.string(),
  rotatedAt: z.string(),
})
export type SecretView = z.infer<typeof secretView>
