/** Making, ending and changing groups: the intent is stored first, and one group is handled as one. */
import { AgentPodError, asAgentPodError, invalid } from '../../core/error.ts'
import { type Group, type GroupMember, MOST_ALIASES, MOST_MEMBERS } from '../../core/group/group.ts'
import { newGroupId, newSandboxId, parseName, type SandboxId } from '../../core/id.ts'
import { LOCAL, type Principal } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { readHostName } from '../../policy/host-name.ts'
import { isNeverReachable, isPublicName } from '../../policy/special-name.ts'
import { ignore } from '../../telemetry/log.ts'
import { failpoint } from '../../util/failpoint.ts'
import type { Context } from '../context.ts'
import { type CreateRequest, create } from '../lifecycle/create.ts'
import { destroy } from '../lifecycle/destroy.ts'
import { remainingMs } from '../lifecycle/extend.ts'
import { pause, resume } from '../lifecycle/pause.ts'
import { start, stop } from '../lifecycle/stop.ts'
import { restore } from '../snapshots/fork.ts'
import { destroyedMeanwhile } from './join-group.ts'
import { among, checkOrder, inOrder, reversed } from './member-order.ts'

/** What a member's sandbox is made from. */
export interface MemberSandbox
  extends Omit<CreateRequest, 'id' | 'origin' | 'owner' | 'who' | 'cap' | 'requestKey' | 'place'> {
  /** The id or name of the snapshot to start from. */
  readonly snapshot?: string | undefined
}

export interface NewMember {
  readonly name: string
  readonly aliases?: readonly string[] | undefined
  readonly main?: boolean | undefined
  readonly after?: readonly string[] | undefined
  /** If left out, the place is kept for a sandbox that is created later. */
  readonly sandbox?: MemberSandbox | undefined
}

export interface NewGroup {
  readonly name: string
  readonly labels?: Readonly<Record<string, string>> | undefined
  readonly members: readonly NewMember[]
}

/** Labels that show in lists which group a sandbox belongs to. Nothing is decided from them. */
const GROUP_LABEL = 'agentpod.group'
const MEMBER_LABEL = 'agentpod.member'
const LONGEST_NAME = 64

/**
 * Creates the group and its sandboxes, each after those that it waits for. On failure everything that was
 * made is destroyed, and no group is left.
 */
export async function makeGroup(ctx: Context, request: NewGroup, who: Principal): Promise<Group> {
  const name = parseName(request.name)
  checkMembers(request.members)
  const members = request.members.map(
    ({ name: member, aliases = [], main = false, after = [], sandbox }): GroupMember => ({
      name: member,
      aliases,
      isMain: main,
      after,
      sandbox: sandbox ? newSandboxId(ctx.random) : undefined,
    }),
  )
  const group: Group = {
    id: newGroupId(ctx.random),
    owner: who.owner,
    name,
    labels: request.labels ?? {},
    state: 'creating',
    members,
    createdAt: ctx.clock.now(),
  }
  checkRoom(ctx, who.owner)
  ctx.groupRegistry.add(group)
  ctx.groupRegistry.inMaking.add(group.id)
  try {
    failpoint('group.intended')
    await inOrder(members, async (member) => {
      requireUnended(ctx, group)
      const asked = request.members.find((one) => one.name === member.name)?.sandbox
      if (asked && member.sandbox) await makeMember(ctx, { group, member, id: member.sandbox }, asked, who)
    })
    requireUnended(ctx, group)
    failpoint('group.made')
    const ready = ctx.groupRegistry.setState(group, 'ready')
    ctx.groupRegistry.inMaking.delete(group.id)
    return ready
  } catch (error) {
    // No create is under way any more, so every sandbox that was made has a record.
    ctx.groupRegistry.inMaking.delete(group.id)
    await endGroup(ctx, group).catch((left) =>
      ignore(ctx.log, left, `the sweep will remove what is left of group ${group.id}`),
    )
    throw error
  }
}

/** INVARIANT: the record exists as long as the group is being made. */
function requireUnended(ctx: Context, group: Group): void {
  if (ctx.groupRegistry.require(group.id).state !== 'creating') throw destroyedMeanwhile(group)
}

const MOST_OWNED = 100

function checkRoom(ctx: Context, owner: string): void {
  if (owner === LOCAL.owner) return
  const owned = ctx.groupRegistry.all().filter((one) => one.owner === owner).length
  if (owned < MOST_OWNED) return
  throw new AgentPodError({
    code: 'resource_exhausted',
    reason: 'quota.groups',
    message: `this key has ${owned} groups, which is the most`,
    hint: '`agentpod group destroy` removes one',
  })
}

async function makeMember(
  ctx: Context,
  { group, member, id }: { readonly group: Group; readonly member: GroupMember; readonly id: SandboxId },
  { snapshot, ...asked }: MemberSandbox,
  who: Principal,
): Promise<Sandbox> {
  const fullName = `${group.name}-${member.name}`
  const request = {
    ...asked,
    name: asked.name ?? (fullName.length <= LONGEST_NAME ? fullName : undefined),
    labels: { ...asked.labels, [GROUP_LABEL]: group.name, [MEMBER_LABEL]: member.name },
    id,
    owner: group.owner,
    cap: who.network,
    who,
  }
  try {
    return snapshot === undefined
      ? await create(ctx, request)
      : await restore(ctx, ctx.snapshotRegistry.find(snapshot, who), request)
  } catch (error) {
    const { code, reason, message, hint, details } = asAgentPodError(error)
    throw new AgentPodError({
      code,
      reason,
      message: `${member.name}: ${message}`,
      hint: reason.startsWith('service.') ? 'its output is above; no part of the group is left' : hint,
      details,
      cause: error,
    })
  }
}

function checkMembers(members: readonly NewMember[]): void {
  if (members.length === 0 || members.length > MOST_MEMBERS)
    throw invalid('group.members', `a group has 1 to ${MOST_MEMBERS} members`)
  if (members.filter(({ main }) => main).length > 1)
    throw invalid('group.main', 'a group has at most one main member')
  const seen = new Set<string>()
  for (const { name, aliases = [] } of members) {
    if (aliases.length > MOST_ALIASES)
      throw invalid('group.aliases', `${name} has more than ${MOST_ALIASES} aliases`)
    for (const host of [name, ...aliases]) {
      checkHost(host)
      if (seen.has(host)) throw invalid('group.name_twice', `two members have the name ${host}`)
      seen.add(host)
    }
  }
  checkOrder(members.map(({ name, after = [] }) => ({ name, after })))
}

/**
 * SECURITY: GP-04. A member cannot take a name that stands for the host or a metadata service, or a public
 * name, which has an owner elsewhere.
 */
function checkHost(text: string): void {
  const reading = readHostName(text)
  const isFree = reading.ok && !isNeverReachable(reading.host) && !isPublicName(reading.host)
  if (isFree && reading.host === text) return
  throw invalid(
    'group.member_name',
    `${JSON.stringify(text)} cannot be the name of a member`,
    'use lowercase letters, digits and hyphens without dots, other than localhost',
  )
}

/**
 * Ends the group and all its sandboxes. Idempotent. If a provider does not answer, the group stays
 * `destroying`, the sweep tries again, and the caller gets the error.
 */
export async function endGroup(ctx: Context, { id }: Group): Promise<void> {
  if (!ctx.groupRegistry.has(id)) return
  const group = ctx.groupRegistry.require(id)
  if (group.state !== 'destroying') ctx.groupRegistry.setState(group, 'destroying')
  failpoint('group.destroying')
  const ends = group.members.map(async ({ sandbox }) => sandbox && destroy(ctx, sandbox))
  const failed = (await Promise.allSettled(ends)).find(({ status }) => status === 'rejected')
  forgetEnded(ctx, group)
  if (failed?.status === 'rejected') throw failed.reason
}

/** Removes the record of a group that is being destroyed, once all its sandboxes have ended. */
export function forgetEnded(ctx: Context, { id }: Group): void {
  if (!ctx.groupRegistry.has(id) || ctx.groupRegistry.inMaking.has(id)) return
  const group = ctx.groupRegistry.require(id)
  if (group.state === 'destroying' && presentMembers(ctx, group).length === 0) ctx.groupRegistry.forget(id)
}

/** After this time a group without any sandbox is over: its creator was interrupted. */
const EMPTY_MS = 3_600_000

/**
 * Whether the main sandbox has ended, or the last of several. A sandbox that never started does not count:
 * its place is free for another attempt.
 */
export function isOver(ctx: Context, group: Group): boolean {
  const ended = group.members.filter(({ sandbox }) => {
    const record = sandbox && ctx.registry.get(sandbox)
    return record && record.startedAt !== undefined && record.endedAt !== undefined
  })
  if (ended.some(({ isMain }) => isMain)) return true
  const isOld = ctx.clock.now() - group.createdAt >= EMPTY_MS
  return (ended.length > 0 || isOld) && presentMembers(ctx, group).length === 0
}

/** At start every unfinished group is from an earlier server. The sweep ends the sandboxes. */
export function recoverGroups(ctx: Context): void {
  for (const group of ctx.groupRegistry.all()) {
    if (group.state === 'ready' && !isOver(ctx, group)) continue
    ctx.groupRegistry.setState(group, 'destroying')
    for (const { sandbox: id } of group.members) {
      const sandbox = id && ctx.registry.get(id)
      if (sandbox && sandbox.endedAt === undefined && sandbox.state !== 'destroying')
        ctx.registry.transition(sandbox.id, 'destroy')
    }
    forgetEnded(ctx, group)
  }
}

/** A member with the record of its sandbox, which has not ended. */
export type PresentMember = GroupMember & { readonly sandbox: SandboxId; readonly record: Sandbox }

/** The members whose sandboxes have not ended, in the order of the whole group. */
export function presentMembers(ctx: Context, group: Group): PresentMember[] {
  const { members } = ctx.groupRegistry.require(group.id)
  const records = new Map(
    members.flatMap(({ name, sandbox }) => {
      const record = sandbox && ctx.registry.get(sandbox)
      return record && record.endedAt === undefined ? [[name, record] as const] : []
    }),
  )
  return among(members, ({ name }) => records.has(name)).flatMap((member) => {
    const record = records.get(member.name)
    return record ? [{ ...member, sandbox: record.id, record }] : []
  })
}

/** If one member cannot be paused, those that were paused for this run again. */
export async function pauseGroup(ctx: Context, group: Group): Promise<void> {
  await standStill(ctx, group, async () => {
    const paused: PresentMember[] = []
    try {
      await inOrder(reversed(presentMembers(ctx, group)), async (member) => {
        const { state } = member.record
        if (state === 'stopped') return
        await pause(ctx, member.sandbox)
        if (state === 'running') paused.push(member)
      })
    } catch (error) {
      await resumeAgain(ctx, paused.reverse())
      throw error
    }
  })
}

/** Connections between members wake none of them while the work is done. */
export async function standStill<T>(ctx: Context, { id }: Group, work: () => Promise<T>): Promise<T> {
  const { standing } = ctx.groupRegistry
  const isOutermost = !standing.has(id)
  standing.add(id)
  try {
    return await work()
  } finally {
    if (isOutermost) standing.delete(id)
  }
}

/** Ends a pause of the engine's own: the members keep the time that they had before it. */
export async function resumeAgain(ctx: Context, members: readonly PresentMember[]): Promise<void> {
  for (const { sandbox, record } of members)
    await resume(ctx, sandbox, remainingMs(ctx, record)).catch((left) =>
      ignore(ctx.log, left, `${sandbox} stays paused`),
    )
}

export async function resumeGroup(ctx: Context, group: Group, ttlMs?: number): Promise<void> {
  await inOrder(presentMembers(ctx, group), async ({ sandbox, record: { state } }) => {
    if (state !== 'stopped') await resume(ctx, sandbox, ttlMs)
  })
}

export async function stopGroup(ctx: Context, group: Group): Promise<void> {
  await standStill(ctx, group, () =>
    inOrder(reversed(presentMembers(ctx, group)), ({ sandbox }) => stop(ctx, sandbox)),
  )
}

export async function startGroup(ctx: Context, group: Group, ttlMs?: number): Promise<void> {
  await inOrder(presentMembers(ctx, group), async ({ sandbox, record: { state } }) => {
    if (state === 'paused') await resume(ctx, sandbox, ttlMs)
    else await start(ctx, sandbox, ttlMs)
  })
}
