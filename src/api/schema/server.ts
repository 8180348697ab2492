import { z } from 'zod'

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
  capabilities: z.object({
    isolation: z.string(),
    limits: z.string(),
    pause: z.string(),
    snapshot: z.string(),
    layers: z.boolean(),
    network: z.enum(['none', 'proxy', 'transparent']),
    hostWritable: z.boolean(),
    rootless: z.boolean(),
    notes: z.array(z.string()),
  }),
})
export type ServerView = z.infer<typeof server>
