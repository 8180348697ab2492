import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { ephemeralNotes } from './ephemeral-directories.ts'
import { placeEphemeral } from './place-ephemeral.ts'

const said = (path: string) => ({ path, evidence: { file: 'agentpod.toml', line: 2, said: path } })
const PLACE = { user: 'user', workspace: '/home/user/shop', generated: ['node_modules'] }

test('LIFE-6 ephemeral directories in the project are left out of its copies and results', () => {
  const wishes = ['tmp', '~/.cache/app', '/var/out', '/home/user/shop/a/b'].map(said)
  const { directories, aside } = placeEphemeral(wishes, PLACE)
  assert.deepEqual(
    directories.map(({ path }) => path),
    ['/home/user/shop/tmp', '/home/user/.cache/app', '/var/out', '/home/user/shop/a/b'],
  )
  assert.deepEqual(aside, ['tmp', 'a/b'])
  assert.deepEqual(ephemeralNotes(wishes, ['tmp/a', 'tmp/b', 'tmpx']), [
    'agentpod.toml:2 tmp is never kept: the 2 files of the project in it are not in the sandbox',
  ])
  assert.deepEqual(ephemeralNotes(wishes, ['a/b/c', 'tmp/a']), [
    'agentpod.toml:2 tmp is never kept: the file of the project in it is not in the sandbox',
  ])
})

test('LIFE-6 an ephemeral directory never hides the project or installed packages', () => {
  for (const [path, says] of [
    ['/home/user', /agentpod\.toml:2 .*hide the copy/],
    ['/home/user/shop', /hide the copy/],
    ['node_modules', /hide what the environment installs in node_modules/],
    ['node_modules/.cache', /hide what the environment installs/],
  ] as const)
    assert.throws(
      () => placeEphemeral([said(path)], PLACE),
      (error) => isAgentPodError(error, 'invalid_argument') && says.test(error.message),
    )
  assert.throws(() => placeEphemeral(['tmp', '/home/user/shop/tmp'].map(said), PLACE), /named twice/)
})
