import { z } from 'zod'
import { capabilities } from './provider.ts'

export const check = z.object({
  name: z.string(),
  ok: z.boolean(),
  required: z.boolean(),
  detail: z.string(),
  hint: z.string().optional(),
})
export type CheckView = z.infer<typeof check>

/** Port 0 takes any free one. */
export const listenRequest = z.strictObject({ port: z.number().int().min(0).max(65535).default(0) })

export const tcpAddress = z.object({
  host: z.string(),
  port: z.number(),
  isTls: z.boolean(),
  movedFrom: z
    .number()
    .optional()
    .describe('The port that it had before, where another program has that by now.'),
})
export type TcpAddressView = z.infer<typeof tcpAddress>

export const server = z.object({
  version: z.string(),
  build: z.string().nullable().describe('Tells builds of one version apart. Null where the sources are run.'),
  pid: z.number(),
  startedAt: z.string(),
  living: z.number(),
  tcp: tcpAddress.nullable(),
  provider: z.string().describe('The provider that is taken where nobody names one.'),
  isRoot: z.boolean().describe('Whether the server runs as root.'),
  capabilities: capabilities.describe('Of that provider.'),
})
export type ServerView = z.infer<typeof server>
