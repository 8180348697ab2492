/** Requests and answers of `/v1/groups`, and groups in other requests. */
import * as z from 'zod'
import { GROUP_STATES, MOST_ALIASES, MOST_MEMBERS } from '../../core/group/group.ts'
import { createSandbox, labels, sandbox } from './sandbox.ts'
import { snapshot } from './snapshot.ts'

const hostName = z.string().min(1).max(253)

const newMember = z.strictObject({
  name: hostName.describe('The host name that other members connect to.'),
  aliases: z.array(hostName).max(MOST_ALIASES).optional().describe('Further host names of this member.'),
  main: z
    .boolean()
    .optional()
    .describe(
      'The sandbox that people work in. The other members are paused, resumed, stopped, started and extended with it, and the group ends with it.',
    ),
  after: z
    .array(hostName)
    .max(MOST_MEMBERS)
    .optional()
    .describe('Members that must be ready before this one starts.'),
  sandbox: createSandbox
    .omit({ place: true })
    .optional()
    .describe('If left out, the place is kept for a sandbox that is created later with `place`.'),
})

export const createGroup = z.strictObject({
  name: z.string().describe('A name that is unique among the caller’s groups.'),
  labels: labels.optional(),
  members: z.array(newMember).min(1).max(MOST_MEMBERS),
})
export type CreateGroup = z.input<typeof createGroup>

/** For snapshots and forks of a group. */
export const nameGroup = z.strictObject({
  name: z
    .string()
    .describe('Of the new group; or of the snapshots, each followed by the name of its member.'),
})

export const group = z.object({
  id: z.string(),
  name: z.string(),
  owner: z.string().describe('The id of a key, or `local`.'),
  labels: z.record(z.string(), z.string()),
  state: z.enum(GROUP_STATES),
  members: z.array(
    z.object({
      name: z.string(),
      aliases: z.array(z.string()),
      main: z.boolean(),
      after: z.array(z.string()),
      sandbox: sandbox.nullable().describe('Null if no sandbox has taken this place.'),
    }),
  ),
  createdAt: z.string(),
})
export type GroupView = z.infer<typeof group>

export const memberSnapshot = z.object({ member: z.string(), snapshot })
export type MemberSnapshotView = z.infer<typeof memberSnapshot>
