import type { AuditAction, AuditEntry } from '../core/audit.ts'
import type { Principal } from '../core/principal.ts'
import { ignore } from '../telemetry/log.ts'
import type { Context } from './context.ts'

/**
 * Writes an audit entry. If it cannot be written, that is logged: the audited operation has already happened.
 */
export function recordAudit(
  { audit, clock, log }: Context,
  { owner: actor }: Pick<Principal, 'owner'>,
  action: AuditAction,
  entry: { readonly subject: string; readonly data?: AuditEntry['data'] | undefined },
): void {
  const { subject, data = {} } = entry
  try {
    audit?.append({ at: clock.now(), actor, action, subject, data })
  } catch (error) {
    ignore(log, error, `no audit entry for ${action} of ${subject} by ${actor}`)
  }
}
