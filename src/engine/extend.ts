import { AgentPodError, invalid } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import type { Sandbox } from '../core/sandbox.ts'
import { LONGEST_TTL_MS } from '../core/spec.ts'
import { CALL, type Context } from './context.ts'

export interface ExtendOptions {
  /** Leaves a deadline that is later already. */
  readonly onlyLonger?: boolean | undefined
}

/** Gives a sandbox `ttlMs` from now. The record, the provider and the guest each hold the deadline. Idempotent. */
export async function extend(
  ctx: Context,
  id: SandboxId,
  ttlMs: number,
  o: ExtendOptions = {},
): Promise<Sandbox> {
  if (!Number.isInteger(ttlMs) || ttlMs < 1000 || ttlMs > LONGEST_TTL_MS) {
    throw invalid('lifetime.ttl', 'the time to live must be from 1 second to 30 days')
  }
  return ctx.lock.run(id, async () => {
    const live = ctx.live.get(id)
    const sandbox = ctx.ledger.get(id)
    if (!live || sandbox?.state !== 'running') throw notRunning(id, sandbox)
    const deadlineAt = ctx.clock.now() + ttlMs
    if (o.onlyLonger && sandbox.deadlineAt >= deadlineAt) return sandbox
    const extended = ctx.ledger.amend(id, { deadlineAt })
    await ctx.provider.extend(id, deadlineAt, CALL)
    await live.guest.renew({ remainingMs: ttlMs, idleMs: sandbox.spec.lifetime.idleMs }, CALL)
    ctx.ledger.note(id, 'sandbox.extended', { deadlineAt })
    return extended
  })
}

/** The error for a verb that needs a running sandbox. */
export function notRunning(ref: string, sandbox: Sandbox | undefined): AgentPodError {
  if (!sandbox) {
    return new AgentPodError({
      code: 'not_found',
      reason: 'sandbox.unknown',
      message: `there is no sandbox ${ref}`,
      hint: '`agentpod ls` shows the living ones',
    })
  }
  const why = sandbox.ending ? `: ${sandbox.ending.message}` : ''
  return new AgentPodError({
    code: sandbox.endedAt === undefined ? 'conflict' : 'not_found',
    reason: sandbox.endedAt === undefined ? 'sandbox.state' : 'sandbox.ended',
    message: `sandbox ${ref} is ${sandbox.state}${why}`,
    details: { state: sandbox.state },
    hint: sandbox.endedAt === undefined ? undefined : '`agentpod create` makes a new one',
  })
}
