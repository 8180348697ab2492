import type { ApiRoute } from './route.ts'

const VOLUME_REF = { ref: 'The id or the name of a volume.' }

export const VOLUME_ROUTES: readonly ApiRoute[] = [
  {
    method: 'POST',
    path: '/v1/volumes',
    tag: 'volumes',
    summary: 'Create a volume',
    description:
      'An empty volume, owned by the caller. When a sandbox mounts it for the first time, it takes over the owner and mode of the directory that it covers; if there is none, every user inside may write to it.',
    who: 'key',
    body: 'CreateVolume',
    answers: [{ status: 201, says: 'The volume.', schema: 'Volume' }],
    errors: ['already_exists', 'unsupported', 'resource_exhausted'],
  },
  {
    method: 'GET',
    path: '/v1/volumes',
    tag: 'volumes',
    summary: 'List volumes',
    description: 'Oldest first, with their use. A key sees its own, an admin key sees all.',
    who: 'key',
    answers: [{ status: 200, says: 'All volumes.', schema: 'Volume', isList: true }],
    errors: [],
  },
  {
    method: 'GET',
    path: '/v1/volumes/{ref}',
    tag: 'volumes',
    summary: 'Get a volume',
    who: 'key',
    parameters: VOLUME_REF,
    answers: [{ status: 200, says: 'The record of the volume.', schema: 'Volume' }],
    errors: ['not_found'],
  },
  {
    method: 'DELETE',
    path: '/v1/volumes/{ref}',
    tag: 'volumes',
    summary: 'Remove a volume',
    description:
      'Removes everything in it. Refused while a sandbox mounts it, also one that is paused or stopped.',
    who: 'key',
    parameters: VOLUME_REF,
    answers: [{ status: 200, says: 'The last record of the volume.', schema: 'Volume' }],
    errors: ['not_found', 'conflict'],
  },
]
