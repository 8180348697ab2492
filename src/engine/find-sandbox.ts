import { isSandboxId, parseName } from '../core/id.ts'
import { maySee, type Principal } from '../core/principal.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { Context } from './context.ts'
import { unusableSandbox } from './lifecycle/require-sandbox.ts'

/**
 * By id (ended sandboxes too) or by the name of an existing one. `not_found` if there is none that `who` may
 * see.
 */
export function getSandbox(ctx: Context, ref: string, who: Principal): Sandbox {
  const sandbox = findSandbox(ctx, ref, who)
  if (sandbox) return sandbox
  throw unusableSandbox(ref, undefined)
}

/** Another owner's sandbox is as unknown as one that never existed. */
export function findSandbox({ registry }: Context, ref: string, who: Principal): Sandbox | undefined {
  const own = registry.byName(who.owner, ref)
  if (own) return own
  if (isSandboxId(ref)) {
    const sandbox = registry.get(ref)
    if (sandbox && maySee(who, sandbox)) return sandbox
  } else {
    parseName(ref)
  }
  return who.isAdmin ? registry.existing().find(({ name }) => name === ref) : undefined
}
