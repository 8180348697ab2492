import type { ApiRoute } from './route.ts'

const GROUP_REF = { ref: 'The id or the name of a group.' }

const change = (verb: string, summary: string, description: string, body?: 'WakeSandbox'): ApiRoute => ({
  method: 'POST',
  path: `/v1/groups/{ref}/${verb}`,
  tag: 'groups',
  summary,
  description,
  who: 'key',
  parameters: GROUP_REF,
  ...(body && { body }),
  answers: [{ status: 200, says: 'The group.', schema: 'Group' }],
  errors: ['not_found', 'conflict', 'unsupported', 'unavailable'],
})

export const GROUP_ROUTES: readonly ApiRoute[] = [
  {
    method: 'POST',
    path: '/v1/groups',
    tag: 'groups',
    summary: 'Create a group',
    description:
      'Creates the sandboxes of the members, each after those that it waits for. Members reach each other’s ports by name, through the egress process; nothing else is opened. If one member fails, everything that was made is destroyed.',
    who: 'key',
    body: 'CreateGroup',
    answers: [{ status: 201, says: 'The group.', schema: 'Group' }],
    errors: ['already_exists', 'failed_precondition', 'not_found', 'unsupported', 'resource_exhausted'],
  },
  {
    method: 'GET',
    path: '/v1/groups',
    tag: 'groups',
    summary: 'List groups',
    description: 'Oldest first. A key sees its own, an admin key sees all.',
    who: 'key',
    answers: [{ status: 200, says: 'All groups.', schema: 'Group', isList: true }],
    errors: [],
  },
  {
    method: 'GET',
    path: '/v1/groups/{ref}',
    tag: 'groups',
    summary: 'Get a group',
    who: 'key',
    parameters: GROUP_REF,
    answers: [{ status: 200, says: 'The group with its sandboxes.', schema: 'Group' }],
    errors: ['not_found'],
  },
  {
    method: 'DELETE',
    path: '/v1/groups/{ref}',
    tag: 'groups',
    summary: 'Destroy a group',
    description: 'Destroys all its sandboxes. Volumes stay.',
    who: 'key',
    parameters: GROUP_REF,
    answers: [{ status: 200, says: 'The last record of the group.', schema: 'Group' }],
    errors: ['not_found', 'unavailable'],
  },
  change(
    'pause',
    'Pause a group',
    'If one member cannot be paused, the others run again. A stopped member stays stopped.',
  ),
  change('resume', 'Resume a group', 'Resumes the paused members in their order.', 'WakeSandbox'),
  change('stop', 'Stop a group', 'Stops the members, those that wait for others first. Files stay.'),
  change('start', 'Start a group', 'Starts the members in their order.', 'WakeSandbox'),
  {
    method: 'POST',
    path: '/v1/groups/{ref}/snapshots',
    tag: 'groups',
    summary: 'Take a snapshot of each member',
    description:
      'The members stand still meanwhile, so all have the files of one moment. All snapshots are kept, or none.',
    who: 'key',
    parameters: GROUP_REF,
    body: 'NameGroup',
    answers: [{ status: 201, says: 'The snapshots, by member.', schema: 'MemberSnapshot', isList: true }],
    errors: ['not_found', 'already_exists', 'unsupported'],
  },
  {
    method: 'POST',
    path: '/v1/groups/{ref}/fork',
    tag: 'groups',
    summary: 'Fork a group',
    description:
      'A new group whose members have the files of one moment. Refused if a member mounts a volume, because forks do not copy volumes.',
    who: 'key',
    parameters: GROUP_REF,
    body: 'NameGroup',
    answers: [{ status: 201, says: 'The new group.', schema: 'Group' }],
    errors: ['not_found', 'already_exists', 'unsupported', 'resource_exhausted'],
  },
]
