/** Members of a group end with its main sandbox, so their own lifetimes do not count while it exists. */
import type { Group } from '../../core/group/group.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Lifetime } from '../../core/spec.ts'
import type { Context } from '../context.ts'

/** The main sandbox of a group, from its first start until it has ended. */
export function presentMain(ctx: Context, { members }: Group): Sandbox | undefined {
  const id = members.find(({ isMain }) => isMain)?.sandbox
  const main = id && ctx.registry.get(id)
  return main && main.startedAt !== undefined && main.endedAt === undefined ? main : undefined
}

/**
 * The lifetime that holds now. While the main sandbox exists, another member is not ended for being idle, and
 * its own deadline halts it as the main one's would, but never destroys it.
 */
export function presentLifetime(ctx: Context, sandbox: Sandbox): Lifetime {
  const { lifetime } = sandbox.spec
  const group = ctx.groupRegistry.ofSandbox(sandbox.id)
  const main = group && presentMain(ctx, group)
  if (!main || main.id === sandbox.id) return lifetime
  const isPaused = main.spec.lifetime.whenOver !== 'stop' && ctx.providers.of(sandbox).pausing !== undefined
  return { ...lifetime, idleMs: 0, whenOver: isPaused ? 'pause' : 'stop', whenIdle: undefined }
}
