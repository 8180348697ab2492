import * as z from 'zod'
import { capabilities } from './provider.ts'

export const check = z.object({
  name: z.string(),
  ok: z.boolean(),
  required: z.boolean(),
  detail: z.string(),
  hint: z.string().optional(),
})
export type CheckView = z.infer<typeof check>

/** Port 0 means any free port. */
export const listenRequest = z.strictObject({ port: z.number().int().min(0).max(65535).default(0) })

export const tcpAddress = z.object({
  host: z.string(),
  port: z.number(),
  isTls: z.boolean(),
  movedFrom: z.number().optional().describe('The previous port, if another program uses it now.'),
})
export type TcpAddressView = z.infer<typeof tcpAddress>

export const server = z.object({
  version: z.string(),
  build: z
    .string()
    .nullable()
    .describe('Distinguishes builds of one version. Null when running from source.'),
  pid: z.number(),
  startedAt: z.string(),
  living: z.number(),
  tcp: tcpAddress.nullable(),
  provider: z.string().describe('The default provider.'),
  isRoot: z.boolean().describe('Whether the server runs as root.'),
  capabilities: capabilities.describe('The capabilities of the default provider.'),
})
export type ServerView = z.infer<typeof server>
