/**
 * Level-triggered repair: compares what we remember with what there is, and finishes or undoes. Runs at start, every few
 * seconds, and when a provider says that a sandbox ended.
 */
import type { SandboxId } from '../core/id.ts'
import type { Exit, Observed } from '../core/provider.ts'
import type { Ending, Sandbox } from '../core/sandbox.ts'
import { ignore } from '../telemetry/log.ts'
import { CALL, type Context } from './context.ts'
import { cleanUp, destroy } from './destroy.ts'

const EXPIRED: Ending = { code: 'deadline_exceeded', reason: 'sandbox.expired', message: 'its time was up' }

/** At start: nothing is in flight in this process, so every unfinished record is from a life before. */
export async function reconcile(ctx: Context): Promise<void> {
  for (const sandbox of ctx.ledger.living()) {
    if (sandbox.state !== 'creating') continue
    ctx.ledger.move(sandbox.id, 'fail', {
      ending: {
        code: 'unavailable',
        reason: 'server.restarted',
        message: 'the server stopped while it was being created',
      },
    })
  }
  await sweep(ctx)
}

/** One round. A failure for one sandbox leaves the others' repair alone. */
export async function sweep(ctx: Context): Promise<void> {
  const listed = await ctx.provider.list(ctx.owner, CALL)
  const found = new Map(listed.map(({ handle, observed }) => [handle.sandboxId, observed]))
  const living = new Set(ctx.ledger.living().map(({ id }) => id))
  const orphans = listed.filter(({ handle }) => !living.has(handle.sandboxId))
  const repairs = [
    ...ctx.ledger
      .living()
      .map((sandbox) => repair(ctx, sandbox, found.get(sandbox.id) ?? { state: 'absent' })),
    ...orphans.map(({ handle }) => ctx.provider.destroy(handle.sandboxId, CALL)),
  ]
  for (const result of await Promise.allSettled(repairs)) {
    if (result.status === 'rejected')
      ignore(ctx.log, result.reason, 'a repair failed; the next sweep tries again')
  }
}

async function repair(ctx: Context, sandbox: Sandbox, observed: Observed): Promise<void> {
  switch (sandbox.state) {
    case 'destroying':
      await destroy(ctx, sandbox.id)
      return
    case 'failed':
      await ctx.lock.run(sandbox.id, () => cleanUp(ctx, sandbox.id))
      return
    case 'running':
      if (observed.state === 'running') {
        adopt(ctx, sandbox)
        if (sandbox.deadlineAt <= ctx.clock.now()) await destroy(ctx, sandbox.id, EXPIRED)
      } else {
        await ended(ctx, sandbox.id, observed)
      }
      return
    default:
      // A transitional state belongs to a verb under way in this process.
      return
  }
}

/** Opens the way into a sandbox that an earlier server started. */
function adopt(ctx: Context, sandbox: Sandbox): void {
  if (ctx.live.has(sandbox.id) || !sandbox.handle) return
  ctx.live.set(sandbox.id, { guest: ctx.provider.open(sandbox.handle), ended: new AbortController() })
}

export function exited(ctx: Context, exit: Exit): Promise<void> {
  return ended(ctx, exit.sandboxId, { state: 'exited', oomKilled: exit.oomKilled, expired: exit.expired })
}

/** A running sandbox that is no more: expired ones are destroyed, lost ones have failed. Either way nothing stays. */
async function ended(ctx: Context, id: SandboxId, observed: Observed): Promise<void> {
  const sandbox = ctx.ledger.get(id)
  if (sandbox?.state !== 'running') return
  const isExpired = observed.state === 'exited' && observed.expired
  if (isExpired || sandbox.deadlineAt <= ctx.clock.now()) {
    await destroy(ctx, id, EXPIRED)
    return
  }
  await ctx.lock.run(id, async () => {
    const current = ctx.ledger.get(id)
    if (current?.state !== 'running') return
    // A sandbox created after the listing was taken is absent from it and very much alive.
    if ((await ctx.provider.inspect(id, CALL)).state === 'running') return
    ctx.ledger.move(id, 'fail', { ending: lost(observed) })
    await cleanUp(ctx, id)
  })
}

function lost(observed: Observed): Ending {
  if (observed.state === 'exited' && observed.oomKilled) {
    return { code: 'resource_exhausted', reason: 'sandbox.oom', message: 'it ran out of memory' }
  }
  return { code: 'unavailable', reason: 'sandbox.lost', message: 'it ended by itself' }
}
