import * as z from 'zod'
import { AUDIT_ACTIONS } from '../../core/audit.ts'
import { resourcesView } from './sandbox.ts'

export const usageView = z.object({
  living: z.number().describe('Sandboxes of the caller that have not ended.'),
  limits: z.object({
    living: z.number().nullable().describe('The most sandboxes at once; null without a limit.'),
    requestsPerSecond: z.number().nullable(),
    burst: z.number().nullable().describe('How many requests may arrive at once.'),
  }),
  asked: resourcesView.describe('The sum of the resources that these sandboxes requested, used or not.'),
})
export type UsageView = z.infer<typeof usageView>

export const auditEntry = z.object({
  seq: z.number(),
  at: z.string(),
  actor: z.string().describe('The id of a key, or `local` for the unix socket.'),
  action: z.enum(AUDIT_ACTIONS),
  subject: z.string().describe('The id of a sandbox or of a key.'),
  data: z.record(z.string(), z.unknown()),
})
export type AuditEntryView = z.infer<typeof auditEntry>
