import { z } from 'zod'
import { AUDIT_ACTIONS } from '../../core/audit.ts'
import { resources } from './sandbox.ts'

export const usage = z.object({
  living: z.number().describe('Living sandboxes of the caller.'),
  limits: z.object({
    living: z.number().nullable().describe('How many there may be; null where there is no bound.'),
    requestsPerSecond: z.number().nullable(),
    burst: z.number().nullable().describe('How many requests may come at once.'),
  }),
  asked: resources.required().describe('The sum of what the living ones asked for, used or not.'),
})
export type UsageView = z.infer<typeof usage>

export const auditEntry = z.object({
  seq: z.number(),
  at: z.string(),
  actor: z.string().describe('The id of a key, or `local` for the unix socket.'),
  action: z.enum(AUDIT_ACTIONS),
  subject: z.string().describe('The id of a sandbox or of a key.'),
  data: z.record(z.string(), z.unknown()),
})
export type AuditEntryView = z.infer<typeof auditEntry>
