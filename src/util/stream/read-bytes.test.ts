import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { test } from 'node:test'
import { readBytes } from './read-bytes.ts'

const tooLong = (): Error => new Error('too long')

test('readBytes returns all bytes of a stream up to the limit', async () => {
  const stream = Readable.from([Buffer.from('ab'), Buffer.from('cd')])
  assert.equal((await readBytes(stream, 4, tooLong)).toString(), 'abcd')
  assert.equal((await readBytes(Readable.from([]), 4, tooLong)).length, 0)
})

test('readBytes refuses a longer stream and closes it', async () => {
  const stream = Readable.from([Buffer.from('ab'), Buffer.from('cd'), Buffer.from('e')])
  await assert.rejects(readBytes(stream, 4, tooLong), /too long/)
  assert.ok(stream.destroyed)
})
