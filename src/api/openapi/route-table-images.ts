import { imagesOf, namedImage } from '../schema/query.ts'
import type { ApiRoute } from './route.ts'

export const IMAGE_ROUTES: readonly ApiRoute[] = [
  {
    method: 'GET',
    path: '/v1/images',
    tag: 'images',
    summary: 'List images',
    description: 'The images that a provider keeps. All keys use the same ones.',
    who: 'key',
    query: imagesOf,
    answers: [{ status: 200, says: 'The images.', schema: 'Image', isList: true }],
    errors: ['unsupported'],
  },
  {
    method: 'GET',
    path: '/v1/images/image',
    tag: 'images',
    summary: 'Get an image',
    who: 'key',
    query: namedImage,
    answers: [{ status: 200, says: 'The image and its settings.', schema: 'Image' }],
    errors: ['not_found', 'unsupported'],
  },
  {
    method: 'DELETE',
    path: '/v1/images/image',
    tag: 'images',
    summary: 'Remove an image',
    description:
      'Its layers are removed with the last image that has them. Refused while a sandbox or a snapshot uses the image.',
    who: 'admin',
    query: namedImage,
    answers: [{ status: 200, says: 'The last record of the image.', schema: 'Image' }],
    errors: ['not_found', 'conflict', 'unsupported'],
  },
  {
    method: 'POST',
    path: '/v1/images/pull',
    tag: 'images',
    summary: 'Pull an image',
    description:
      'Asks the registry what a tag stands for now, and gets the layers that are missing. The credentials of the user who runs the server are used for admins only. The answer is a stream of JSON lines; the last one is `pulled` or an error.',
    who: 'key',
    body: 'PullImage',
    answers: [{ status: 200, says: 'Lines of JSON.', schema: 'ImageEvent', media: 'application/x-ndjson' }],
    errors: ['unsupported', 'resource_exhausted'],
  },
  {
    method: 'POST',
    path: '/v1/images/feature',
    tag: 'images',
    summary: 'Get a Feature of development containers',
    description:
      'By the rules of images: the same mirrors, credentials and certificates. The answer is a stream of JSON lines; the last one is `feature` or an error.',
    who: 'key',
    body: 'FetchFeature',
    answers: [{ status: 200, says: 'Lines of JSON.', schema: 'ImageEvent', media: 'application/x-ndjson' }],
    errors: ['unsupported', 'resource_exhausted'],
  },
  {
    method: 'POST',
    path: '/v1/images/push',
    tag: 'images',
    summary: 'Push an environment, a snapshot or a sandbox as an image',
    description:
      'The same files and settings give the same digest. The answer is a stream of JSON lines; the last one is `pushed` or an error.',
    who: 'admin',
    body: 'PushImage',
    answers: [{ status: 200, says: 'Lines of JSON.', schema: 'ImageEvent', media: 'application/x-ndjson' }],
    errors: ['not_found', 'unsupported', 'resource_exhausted'],
  },
  {
    method: 'POST',
    path: '/v1/images/layout',
    tag: 'images',
    summary: 'Pack an environment, a snapshot or a sandbox as an OCI layout',
    who: 'key',
    body: 'PackImage',
    answers: [{ status: 200, says: 'The directory as a tar archive.', media: 'application/x-tar' }],
    errors: ['not_found', 'unsupported', 'resource_exhausted'],
  },
]
