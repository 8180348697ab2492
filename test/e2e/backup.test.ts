/**
 * A state directory is backed up and restored: a stopped sandbox starts with its files, and a snapshot can be
 * restored.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { World } from '../support/world.ts'

const world = new World()
const other = new World()
const copy = join(world.directory(), 'copy')

after(async () => {
  await world[Symbol.asyncDispose]()
  await other[Symbol.asyncDispose]()
})

test('STATE-12 a backup holds everything at rest, and is restored as it was', async () => {
  await world.ok(['create', '--name', 'box'])
  await world.ok(['exec', 'box', '--', 'sh', '-c', 'echo kept > ~/file'])
  await world.ok(['snapshot', 'create', 'box', '--name', 'shot'])
  const { code, stderr } = await world.cli(['backup', copy])
  assert.notEqual(code, 0, 'a sandbox runs')
  assert.match(stderr, /not stopped: box(.|\n)*hint: /)
  assert.equal(existsSync(copy), false)
  await world.ok(['stop', 'box'])
  assert.match(await world.ok(['backup', copy]), /backed up/)
  assert.deepEqual(readdirSync(join(copy, '..')), ['copy'], 'nothing else is left there')
  assert.notEqual((await world.cli(['backup', copy])).code, 0, 'a backup is never written over')
  assert.equal(await world.ok(['exec', 'box', 'cat', '/home/user/file']), 'kept\n', 'the original goes on')

  assert.notEqual((await world.cli(['backup', 'restore', copy])).code, 0, 'nor is a state directory in use')
  await other.ok(['backup', 'restore', copy])
  assert.match(await other.ok(['ls']), /box.*stopped/)
  assert.equal(await other.ok(['exec', 'box', 'cat', '/home/user/file']), 'kept\n')
  await other.ok(['restore', 'shot', '--name', 'again'])
  assert.equal(await other.ok(['exec', 'again', 'cat', '/home/user/file']), 'kept\n')
})
