import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { createServer, get, type IncomingMessage, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Writable } from 'node:stream'
import { after, before, test } from 'node:test'
import { streamBody } from './stream-body.ts'

const BLOCKS = 200
const block = (i: number): Buffer => Buffer.alloc(100_000 + i, i % 251)
let server: Server

before(async () => {
  server = createServer((request, response) => {
    for (let i = 0; i < BLOCKS; i++) response.write(block(i))
    if (request.url === '/whole') response.end()
    else setTimeout(() => response.destroy(), 50)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
})

after(() => server.close())

const fetched = (path: string): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    get({ port: (server.address() as AddressInfo).port, path }, resolve).once('error', reject)
  })

/** A sink that looks at a chunk only after a while: one let go too early would be empty. */
const slow = (take: (chunk: Buffer) => void): Writable =>
  new Writable({
    highWaterMark: 1,
    write(chunk, _, done) {
      setImmediate(() => {
        take(chunk)
        done()
      })
    },
  })

test('streamBody delivers every byte in order, and frees the buffers behind it', async () => {
  const expected = createHash('sha256')
  for (let i = 0; i < BLOCKS; i++) expected.update(block(i))
  const actual = createHash('sha256')
  const chunks: Buffer[] = []
  await streamBody(
    await fetched('/whole'),
    slow((chunk) => {
      actual.update(chunk)
      chunks.push(chunk)
    }),
  )
  assert.equal(actual.digest('hex'), expected.digest('hex'))
  const kept = new Set(chunks.map((chunk) => chunk.buffer).filter((buffer) => buffer.byteLength > 0))
  assert.equal(kept.size, 1, 'all but the last buffer are gone')
})

test('streamBody breaks the sink when the source fails, and ends the source when the sink closes', async () => {
  const sink = slow(() => {})
  await assert.rejects(streamBody(await fetched('/cut'), sink))
  assert.ok(sink.destroyed)
  const source = await fetched('/whole')
  const closing: Writable = slow(() => closing.destroy())
  await assert.rejects(streamBody(source, closing))
  assert.ok(source.destroyed)
})
