/**
 * Keeps a group together with the sandbox that people work in: the others are paused, resumed, stopped,
 * started and extended with it, and the group ends with it. This compares records: whatever was missed, by a
 * failure or by a killed server, the next comparison finds.
 */
import type { Followed, Group, GroupMember } from '../../core/group/group.ts'
import type { GroupId, SandboxId } from '../../core/id.ts'
import type { State } from '../../core/lifecycle.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { ignore } from '../../telemetry/log.ts'
import type { Context } from '../context.ts'
import { extend, remainingMs } from '../lifecycle/extend.ts'
import { pause, resume } from '../lifecycle/pause.ts'
import { start, stop } from '../lifecycle/stop.ts'
import { presentMain } from './follower-lifetime.ts'
import { endGroup, forgetEnded, isOver, presentMembers } from './group.ts'
import { among, inOrder, reversed } from './member-order.ts'

const FOLLOWED: readonly State[] = ['running', 'paused', 'stopped']
const CHANGING: readonly State[] = ['creating', 'pausing', 'resuming', 'stopping', 'starting']

/**
 * Called with every record that was written, under the lock of that sandbox. Never throws: the record is
 * written already, and a sweep repeats what failed here.
 */
export function onMemberWritten(ctx: Context, sandbox: Sandbox): void {
  const group = ctx.groupRegistry.ofSandbox(sandbox.id)
  if (!group) return
  const hasEnded = sandbox.endedAt !== undefined
  try {
    if (hasEnded && group.state === 'destroying') forgetEnded(ctx, group)
    else if (hasEnded || (isMain(group, sandbox) && FOLLOWED.includes(sandbox.state))) followLater(ctx, group)
  } catch (error) {
    ignore(ctx.log, error, `the sweep will forget the group ${group.name}`)
  }
}

/** Repeats what failed, and ends what an earlier server left. */
export function sweepGroups(ctx: Context): void {
  for (const group of ctx.groupRegistry.all()) {
    if (group.state === 'destroying') forgetEnded(ctx, group)
    else followLater(ctx, group)
  }
}

/** A comparison that still waits for the lock sees the present records, so one at a time is enough. */
export function followLater(ctx: Context, { id, name }: Group): void {
  const { toFollow } = ctx.groupRegistry
  if (toFollow.has(id)) return
  toFollow.add(id)
  const follow = (): Promise<void> => {
    toFollow.delete(id)
    return followMain(ctx, id)
  }
  ctx.lock
    .run(`group:${id}`, follow)
    .catch((error) => ignore(ctx.log, error, `the sweep will make the group ${name} follow its main sandbox`))
}

/** Makes the others agree with the present record of the main sandbox. Called under the lock of the group. */
async function followMain(ctx: Context, id: GroupId): Promise<void> {
  const group = ctx.groupRegistry.has(id) ? ctx.groupRegistry.require(id) : undefined
  if (group?.state !== 'ready') return
  if (isOver(ctx, group)) return endGroup(ctx, group)
  const main = presentMain(ctx, group)
  const place = group.members.find(({ isMain }) => isMain)
  if (!main || !place || !FOLLOWED.includes(main.state)) return
  const { followed } = place
  const others = among(presentMembers(ctx, group), ({ isMain }) => !isMain)
  if (followed?.isDone && followed.state === main.state) return extendShorter(ctx, main, others)
  const note = (isDone: boolean): void => {
    ctx.groupRegistry.setMember(group, place.name, { followed: { state: main.state, isDone } })
  }
  note(false)
  if (main.state === 'paused') await pauseOthers(ctx, others)
  else if (main.state === 'stopped') await stopOthers(ctx, others)
  else await wakeOthers(ctx, main, others, followed)
  const isSettled = others.every(({ sandbox }) => !CHANGING.includes(stateOf(ctx, sandbox)))
  if (isSettled) note(true)
}

type Other = GroupMember & { readonly sandbox: SandboxId; readonly record: Sandbox }

/** A member that its provider cannot pause runs on. */
async function pauseOthers(ctx: Context, others: readonly Other[]): Promise<void> {
  await inOrder(reversed(others), async ({ sandbox, record }) => {
    if (stateOf(ctx, sandbox) === 'running' && canPause(ctx, record)) await pause(ctx, sandbox)
  })
}

async function stopOthers(ctx: Context, others: readonly Other[]): Promise<void> {
  await inOrder(reversed(others), async ({ sandbox, record }) => {
    const isUp = ['running', 'paused'].includes(stateOf(ctx, sandbox))
    if (isUp && ctx.providers.of(record).stopping) await stop(ctx, sandbox)
  })
}

/**
 * Undoes what was done when the main sandbox was halted. The first time nothing was, and a member that its
 * user has halted stays so.
 */
async function wakeOthers(
  ctx: Context,
  main: Sandbox,
  others: readonly Other[],
  before: Followed | undefined,
): Promise<void> {
  await inOrder(others, async ({ sandbox, record }) => {
    const state = stateOf(ctx, sandbox)
    const ttlMs = remainingMs(ctx, main)
    // Also renews the lease in the guest, which may be from before this member had a main sandbox.
    if (state === 'running') await extend(ctx, sandbox, Math.max(ttlMs, remainingMs(ctx, record)))
    else if (!before) return
    else if (state === 'paused') await resume(ctx, sandbox, ttlMs)
    else if (state === 'stopped' && (before.state !== 'paused' || !canPause(ctx, record)))
      await start(ctx, sandbox, ttlMs)
  })
}

/** No running member has less time than a running main sandbox. */
async function extendShorter(ctx: Context, main: Sandbox, others: readonly Other[]): Promise<void> {
  if (main.state !== 'running') return
  const shorter = others.filter(
    ({ record }) => record.state === 'running' && record.deadlineAt < main.deadlineAt,
  )
  const ttlMs = remainingMs(ctx, main)
  await Promise.all(shorter.map(({ sandbox }) => extend(ctx, sandbox, ttlMs, { onlyLonger: true })))
}

function canPause(ctx: Context, record: Sandbox): boolean {
  return ctx.providers.of(record).pausing !== undefined
}

function stateOf(ctx: Context, id: SandboxId): State {
  return ctx.registry.get(id)?.state ?? 'destroyed'
}

function isMain({ members }: Group, { id }: Sandbox): boolean {
  return members.some(({ isMain: itself, sandbox }) => itself && sandbox === id)
}
