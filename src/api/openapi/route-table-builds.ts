import type { ApiRoute } from './route.ts'

export const BUILD_ROUTES: readonly ApiRoute[] = [
  {
    method: 'POST',
    path: '/v1/builds',
    tag: 'builds',
    summary: 'Build an environment',
    description:
      'Each step of the recipe runs in a sandbox on top of the layers below, and the files it writes become a layer. Existing layers are not built again. The answer is a stream of JSON lines; the last one is `built`, `needs` or an error.',
    who: 'key',
    body: 'Build',
    answers: [{ status: 200, says: 'Lines of JSON.', schema: 'BuildEvent', media: 'application/x-ndjson' }],
    errors: ['failed_precondition', 'resource_exhausted'],
  },
  {
    method: 'POST',
    path: '/v1/builds/files/{digest}',
    tag: 'builds',
    summary: 'Upload files for a step',
    description:
      'The body is a tar archive, streamed. It is kept until its step is built, for at most a day.',
    who: 'key',
    parameters: { digest: 'sha256 of the archive.' },
    stream: 'application/x-tar',
    answers: [{ status: 201, says: 'The archive is stored.', schema: 'Uploaded' }],
    errors: ['resource_exhausted', 'data_loss'],
  },
  {
    method: 'GET',
    path: '/v1/builds/toolchains',
    tag: 'builds',
    summary: 'List tools of the base `host`',
    who: 'key',
    answers: [{ status: 200, says: 'Tools with their versions and directories.', schema: 'Toolchains' }],
    errors: [],
  },
  {
    method: 'GET',
    path: '/v1/builds/layers',
    tag: 'builds',
    summary: 'List layers',
    who: 'admin',
    answers: [{ status: 200, says: 'Oldest first.', schema: 'Layer', isList: true }],
    errors: [],
  },
  {
    method: 'POST',
    path: '/v1/builds/prune',
    tag: 'builds',
    summary: 'Remove unused layers',
    description: 'Removes the least recently used layers first, until the rest takes at most `keepBytes`.',
    who: 'admin',
    body: 'Prune',
    answers: [{ status: 200, says: 'The removed layers.', schema: 'Pruned' }],
    errors: [],
  },
]
