/** Which paths of a copy a result has to look at. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { AgentPodError } from '../../core/error.ts'
import { changedPaths } from './changed-paths.ts'

const COPY = { workspace: '/home/user/project', snapshot: 'snap', aside: ['node_modules', 'web/dist'] }

async function of(paths: string[] | null, snapshot: string | null = 'snap'): Promise<unknown> {
  const asked: string[] = []
  const found = await changedPaths(
    {
      async changes(directory) {
        asked.push(directory)
        return { snapshot, paths }
      },
    },
    COPY,
  )
  assert.deepEqual(asked, [COPY.workspace])
  return found
}

test('the paths to look at are those that changed, without the repository and what is aside', async () => {
  assert.deepEqual(await of([]), [])
  assert.deepEqual(await of(['.git', '.git/index', 'node_modules/x/y', 'web/dist']), [])
  assert.deepEqual(await of(['.gitignore', 'web/distant', '.git/HEAD', 'a/b']), [
    '.gitignore',
    'web/distant',
    'a/b',
  ])
})

test('a path inside another one is not looked at twice', async () => {
  assert.deepEqual(await of(['a/b', 'a', 'a/b/c', 'ab', 'c/d', 'c/e']), ['a', 'ab', 'c/d', 'c/e'])
})

test('everything is looked at if what changed is not known, or not since this copy', async () => {
  assert.equal(await of(null, null), undefined)
  assert.equal(await of(null), undefined)
  assert.equal(await of(['a'], 'another'), undefined)
  assert.equal(await of(['a'], null), undefined)
})

test('everything is looked at if a repository inside the project changed', async () => {
  assert.equal(await of(['lib/.git']), undefined)
  assert.equal(await of(['a', 'lib/sub/.git/HEAD']), undefined)
})

test('everything is looked at if the server cannot answer, and a defect is not hidden', async () => {
  const failing = (error: Error): Promise<unknown> =>
    changedPaths({ changes: () => Promise.reject(error) }, COPY)
  for (const code of ['not_found', 'invalid_argument', 'deadline_exceeded', 'unavailable'] as const)
    assert.equal(await failing(new AgentPodError({ code, reason: 'test', message: 'test' })), undefined)
  await assert.rejects(failing(new TypeError('a defect')))
})
