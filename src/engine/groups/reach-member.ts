/** Connections between members of a group. The egress process asks; the records of the server decide. */
import type { Duplex } from 'node:stream'
import { AgentPodError } from '../../core/error.ts'
import { type Group, memberNamed } from '../../core/group/group.ts'
import type { SandboxId } from '../../core/id.ts'
import type { State } from '../../core/lifecycle.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Context } from '../context.ts'
import { ExchangeLimit } from '../exchange-limit.ts'
import { connectOrWake } from '../lifecycle/wake.ts'
import { presentMain } from './follower-lifetime.ts'

export interface MemberCall {
  /** The sandbox that connects. */
  readonly from: SandboxId
  /** The host name that it connects to. */
  readonly member: string
  readonly port: number
}

const DIAL_MS = 10_000
const MOST_OF_OWNER = 1024
const MOST_TO_MEMBER = 256

/** SECURITY: GP-05. Each connection needs memory and descriptors of the server. */
export interface MemberLimits {
  readonly ofOwner: ExchangeLimit
  readonly toMember: ExchangeLimit
}

export function memberLimits(): MemberLimits {
  return {
    ofOwner: new ExchangeLimit(MOST_OF_OWNER, 'connections between members of groups'),
    toMember: new ExchangeLimit(MOST_TO_MEMBER, 'connections from members of its group', 'this member'),
  }
}

const HALTED: readonly (State | undefined)[] = ['pausing', 'paused', 'stopping', 'stopped', undefined]

/**
 * SECURITY: GP-01, GP-02, GP-03. The group, its owner and its members are looked up now, so an outdated link
 * of the egress process reaches nothing. A paused or stopped member is woken, if its lifetime and the state
 * of the group allow that.
 */
export async function reachMember(
  ctx: Context,
  call: MemberCall,
  limits: MemberLimits,
  signal: AbortSignal,
): Promise<Duplex> {
  const { id, owner } = targetOf(ctx, call)
  const places = [limits.ofOwner.enter(owner)]
  const leave = (): void => {
    for (const leavePlace of places) leavePlace()
  }
  try {
    places.push(limits.toMember.enter(id))
    const stream = await dialMember(ctx, call, id, signal)
    stream.once('close', leave)
    return stream
  } catch (error) {
    leave()
    throw error
  }
}

async function dialMember(
  ctx: Context,
  call: MemberCall,
  target: SandboxId,
  signal: AbortSignal,
): Promise<Duplex> {
  const { guest, ended } = await connectOrWake(ctx, target, () => mayWake(ctx, call))
  if (targetOf(ctx, call).id !== target) throw notReachable(call.member)
  const stream = await guest.dial(call.port, {
    timeoutMs: DIAL_MS,
    signal: AbortSignal.any([signal, ended.signal]),
  })
  const cut = (): void => void stream.destroy()
  if (ended.signal.aborted) cut()
  ended.signal.addEventListener('abort', cut, { once: true })
  stream.once('close', () => ended.signal.removeEventListener('abort', cut))
  return stream
}

/** A connection that is still under way does not undo a pause or stop of the group or of its main sandbox. */
function mayWake(ctx: Context, { from }: MemberCall): boolean {
  const group = ctx.groupRegistry.ofSandbox(from)
  if (!group || ctx.groupRegistry.standing.has(group.id)) return false
  const main = presentMain(ctx, group)
  return !HALTED.includes(ctx.registry.get(from)?.state) && !(main && HALTED.includes(main.state))
}

function targetOf(ctx: Context, { from, member }: MemberCall): Sandbox {
  const group = ctx.groupRegistry.ofSandbox(from)
  const caller = ctx.registry.get(from)
  if (!group || !isMemberOf(group, caller)) throw notReachable(member)
  const id = memberNamed(group, member)?.sandbox
  const target = id && ctx.registry.get(id)
  if (!target || !isMemberOf(group, target)) throw notReachable(member)
  return target
}

function isMemberOf(
  { owner }: Group,
  sandbox: { readonly owner: string; readonly endedAt: number | undefined } | undefined,
): boolean {
  return sandbox !== undefined && sandbox.owner === owner && sandbox.endedAt === undefined
}

function notReachable(member: string): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'group.member',
    message: `${member} does not run at the moment`,
    hint: 'start it, or create the group again',
  })
}
