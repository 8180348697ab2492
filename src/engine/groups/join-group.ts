/** A new sandbox takes a place in a group that exists. */
import { AgentPodError } from '../../core/error.ts'
import { type Group, memberNamed } from '../../core/group/group.ts'
import type { SandboxId } from '../../core/id.ts'
import type { Context } from '../context.ts'

/** A place in a group, as a request for a sandbox names it. */
export interface GroupPlace {
  /** The id or name of a group of the sandbox's owner. */
  readonly group: string
  readonly member: string
}

/** SECURITY: GP-01. Only a group of the sandbox's owner is found, also when an administrator asks. */
export function findPlace(ctx: Context, owner: string, { group: ref, member }: GroupPlace): Group {
  const group = ctx.groupRegistry.get(ref, { owner, isAdmin: false })
  const place = memberNamed(group, member)
  if (group.state !== 'ready' || place?.name !== member) {
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'group.place',
      message:
        group.state === 'ready'
          ? `the group ${group.name} has no place named ${member}`
          : `the group ${group.name} is ${group.state}`,
      hint: `\`agentpod group show ${group.name}\` lists its members`,
    })
  }
  const before = place.sandbox && ctx.registry.get(place.sandbox)
  if (before && before.endedAt === undefined) {
    throw new AgentPodError({
      code: 'already_exists',
      reason: 'group.place_taken',
      message: `${member} of the group ${group.name} is the sandbox ${before.name ?? before.id}`,
      hint: 'destroy that sandbox first, or create another group',
    })
  }
  return group
}

/** Stores the intent. INVARIANT: nothing is awaited between `findPlace` and this. */
export function takePlace(ctx: Context, group: Group, member: string, sandbox: SandboxId | undefined): void {
  ctx.groupRegistry.setMember(group, member, { sandbox, followed: undefined })
}

/** A group that is destroyed while it is being made gets no further sandboxes. */
export function requireUnended(ctx: Context, sandbox: SandboxId): void {
  const group = ctx.groupRegistry.ofSandbox(sandbox)
  if (group?.state === 'destroying') throw destroyedMeanwhile(group)
}

export function destroyedMeanwhile({ name }: Group): AgentPodError {
  return new AgentPodError({
    code: 'conflict',
    reason: 'group.destroyed',
    message: `the group ${name} was destroyed while it was being created`,
  })
}
