import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2'
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { poddGuest } from './client.ts'
import { multiplexedStreams, type PoddStreams, socketStreams } from './streams.ts'

const NEVER = new AbortController().signal

/** A sandbox that answers each stream as the test says, over HTTP/2. */
async function hostile(
  answer: (stream: ServerHttp2Stream) => void,
): Promise<{ streams: PoddStreams; dials: () => number } & AsyncDisposable> {
  const server: Http2Server = createServer().on('stream', (stream) => {
    stream.on('error', () => undefined)
    answer(stream)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  let dials = 0
  const streams = multiplexedStreams(async () => {
    dials++
    return connect((server.address() as AddressInfo).port, '127.0.0.1')
  })
  return {
    streams,
    dials: () => dials,
    async [Symbol.asyncDispose]() {
      streams.close()
      server.close()
      await once(server, 'close')
    },
  }
}

function record(text: string): Buffer {
  const head = Buffer.alloc(4)
  head.writeUInt32BE(text.length)
  return Buffer.concat([head, Buffer.from(text)])
}
const END = record('')

test('records of podd are reassembled, however they are cut', async () => {
  const all = Buffer.concat([record('one'), record('two'), record('x'.repeat(65_536)), END])
  for (const size of [1, 3, 4, 7, 16_384, all.length]) {
    await using sandbox = await hostile((stream) => {
      stream.respond({ ':status': 200 })
      for (let at = 0; at < (size < 10 ? 14 : all.length); at += size)
        stream.write(all.subarray(at, at + size))
      if (size < 10) stream.write(all.subarray(Math.ceil(14 / size) * size))
      stream.end()
    })
    const said = await buffer(await sandbox.streams.open('api', NEVER))
    assert.equal(said.toString(), `onetwo${'x'.repeat(65_536)}`)
  }
})

test('malformed records of podd are an error, never a silent end', async () => {
  const cases: [string, Buffer, RegExp][] = [
    ['no end', record('cut'), /was cut/],
    ['half a record', Buffer.concat([record('whole'), record('half').subarray(0, 6)]), /was cut/],
    ['too long', Buffer.from([0, 1, 0, 1, 0]), /too long/],
    ['after the end', Buffer.concat([END, record('more')]), /after its end/],
  ]
  for (const [name, bytes, message] of cases) {
    await using sandbox = await hostile((stream) => {
      stream.respond({ ':status': 200 })
      stream.end(bytes)
    })
    const stream = await sandbox.streams.open('api', NEVER)
    await assert.rejects(buffer(stream), message, name)
  }
})

test('a stream that podd refuses is unavailable, and the connection stays open', async () => {
  let asked = 0
  await using sandbox = await hostile((stream) => {
    stream.respond({ ':status': ++asked === 1 ? 404 : 200 })
    stream.end(END)
  })
  await assert.rejects(sandbox.streams.open('egress', NEVER), (e) => isAgentPodError(e, 'unavailable'))
  assert.equal((await buffer(await sandbox.streams.open('api', NEVER))).length, 0)
  assert.equal(sandbox.dials(), 1)
})

test('one dial to podd runs at a time, and the next call retries a failed one', async () => {
  let dials = 0
  const streams = multiplexedStreams(async () => {
    dials++
    throw new Error('no way in')
  })
  const all = await Promise.allSettled([1, 2, 3].map(() => streams.open('api', NEVER)))
  assert.ok(all.every((one) => one.status === 'rejected' && isAgentPodError(one.reason, 'unavailable')))
  assert.equal(dials, 1)
  await assert.rejects(poddGuest(streams).health({ timeoutMs: 1000 }), (e) =>
    isAgentPodError(e, 'unavailable'),
  )
  assert.equal(dials, 2)
})

test('a caller can abort waiting for a dial that hangs and for a podd that does not answer', async () => {
  const never = multiplexedStreams(() => new Promise(() => undefined))
  await assert.rejects(never.open('api', AbortSignal.timeout(20)), { name: 'TimeoutError' })
  const waiting = never.open('api', NEVER)
  never.close()
  await assert.rejects(waiting, (e) => isAgentPodError(e, 'unavailable'))

  const silent = multiplexedStreams(
    async () => new Duplex({ read: () => undefined, write: (_chunk, _encoding, done) => done() }),
  )
  await assert.rejects(silent.open('api', AbortSignal.timeout(20)), { name: 'TimeoutError' })
  silent.close()
})

test('socketStreams dials a unix socket for each stream', async () => {
  const path = join(tmpdir(), `agentpod-streams-${process.pid}.sock`)
  const server = createTcpServer((socket) => socket.pipe(socket)).listen(path)
  await once(server, 'listening')
  const streams = socketStreams({ api: path })
  const stream = await streams.open('api', NEVER)
  stream.end('echo')
  assert.equal((await buffer(stream)).toString(), 'echo')
  server.close()
  await once(server, 'close')
  await assert.rejects(streams.open('api', NEVER), (e) => isAgentPodError(e, 'unavailable'))
  await assert.rejects(streams.open('egress', NEVER), (e) => isAgentPodError(e, 'internal'))
})
