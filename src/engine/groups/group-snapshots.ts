/** Snapshots and forks of a whole group, with the files of one moment. */
import { AgentPodError, invalid } from '../../core/error.ts'
import type { Group } from '../../core/group/group.ts'
import { parseName } from '../../core/id.ts'
import type { Principal } from '../../core/principal.ts'
import type { Snapshot } from '../../core/snapshot.ts'
import { failpoint } from '../../util/failpoint.ts'
import type { Context } from '../context.ts'
import { discardSnapshot, recordSnapshot, takeSnapshot } from '../snapshots/snapshot.ts'
import {
  makeGroup,
  type PresentMember,
  pauseGroup,
  presentMembers,
  resumeAgain,
  standStill,
} from './group.ts'

export interface MemberSnapshot {
  readonly member: string
  readonly snapshot: Snapshot
}

/**
 * One snapshot of each member, named NAME-MEMBER. All become visible in one transaction, so a server that is
 * killed leaves all or none.
 */
export async function snapshotGroup(
  ctx: Context,
  group: Group,
  name: string,
  who: Principal,
): Promise<MemberSnapshot[]> {
  const names = new Map(
    presentMembers(ctx, group).map(({ name: member }) => [member, parseName(`${name}-${member}`)]),
  )
  const taken = await takeAll(ctx, group, who)
  let kept: Snapshot[]
  try {
    failpoint('group.snapshots')
    kept = ctx.snapshotRegistry.keep(
      taken.map(({ member, snapshot }) => ({ ...snapshot, name: names.get(member) })),
    )
  } catch (error) {
    await discardAll(ctx, taken)
    throw error
  }
  for (const snapshot of kept) recordSnapshot(ctx, snapshot)
  return taken.map(({ member }, at) => ({ member, snapshot: kept[at] as Snapshot }))
}

/** The snapshots that `forkGroup` starts from. */
export async function takeForFork(ctx: Context, group: Group, who: Principal): Promise<MemberSnapshot[]> {
  refuseVolumes(ctx, group)
  return takeAll(ctx, group, who)
}

/** A new group whose members have the files of the same moment. The snapshots are removed in any case. */
export async function forkGroup(
  ctx: Context,
  o: { readonly group: Group; readonly taken: readonly MemberSnapshot[]; readonly name: string },
  who: Principal,
): Promise<Group> {
  const { group, taken, name } = o
  try {
    return await makeGroup(
      ctx,
      {
        name,
        labels: group.labels,
        members: group.members.map(({ name: member, aliases, after, isMain }) => {
          const snapshot = taken.find((one) => one.member === member)?.snapshot.id
          return { name: member, aliases, after, main: isMain, ...(snapshot && { sandbox: { snapshot } }) }
        }),
      },
      who,
    )
  } finally {
    await discardAll(ctx, taken)
  }
}

/** The members stand still until all snapshots are taken. Temporary: a new server removes them. */
async function takeAll(ctx: Context, group: Group, who: Principal): Promise<MemberSnapshot[]> {
  const members = presentMembers(ctx, group)
  if (members.length === 0) throw invalid('group.empty', `the group ${group.name} has no sandboxes`)
  const running = members.filter(({ record }) => record.state === 'running')
  requirePausing(ctx, running)
  return standStill(ctx, group, async () => {
    const taken: MemberSnapshot[] = []
    try {
      await pauseGroup(ctx, group)
      const still = presentMembers(ctx, group)
      for (const { name: member, sandbox } of members)
        taken.push({
          member,
          snapshot: await takeSnapshot(ctx, sandbox, { owner: who.owner, isTemporary: true }),
        })
      for (const member of still) requireStill(ctx, member)
      return taken
    } catch (error) {
      await discardAll(ctx, taken)
      throw error
    } finally {
      await resumeAgain(ctx, running)
    }
  })
}

function requirePausing(ctx: Context, running: readonly PresentMember[]): void {
  const other = running.find(({ record }) => !ctx.providers.of(record).pausing)
  if (!other) return
  throw new AgentPodError({
    code: 'unsupported',
    reason: 'group.pausing',
    message: `${other.name} runs on ${other.record.provider}, which cannot pause it, so its files would be of a later moment`,
    hint: 'stop the group first',
  })
}

/** A call of the user may have woken a member. A resume also sets a new deadline. */
function requireStill(ctx: Context, { name, sandbox, record }: PresentMember): void {
  const now = ctx.registry.get(sandbox)
  const isStill = record.state === 'paused' || record.state === 'stopped'
  if (isStill && now?.state === record.state && now.deadlineAt === record.deadlineAt) return
  throw new AgentPodError({
    code: 'conflict',
    reason: 'group.woken',
    message: `${name} was used while the snapshots were taken, so their files are not of one moment`,
    hint: 'try again',
  })
}

async function discardAll(ctx: Context, taken: readonly MemberSnapshot[]): Promise<void> {
  for (const { snapshot } of [...taken].reverse()) await discardSnapshot(ctx, snapshot)
}

/** A fork has an empty directory where its original has a volume; a database would start without its data. */
function refuseVolumes(ctx: Context, group: Group): void {
  for (const { name, record } of presentMembers(ctx, group)) {
    const [volume] = record.spec.volumes ?? []
    if (!volume) continue
    throw new AgentPodError({
      code: 'unsupported',
      reason: 'group.volumes',
      message: `${name} mounts the volume ${volume.name}, and forks do not copy volumes`,
      hint: 'create another group instead, or one without volumes',
    })
  }
}
