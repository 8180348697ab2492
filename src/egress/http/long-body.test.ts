import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { EgressFixture, testPolicy } from '../testing/egress-fixture.ts'

const MIB = 1024 * 1024
const LENGTH = 3 * MIB + 17
const HOST = 'long.example'

/** Plain HTTP, where nothing has to be changed in the response. */
describe('a long response body', () => {
  let stage: EgressFixture
  /** What is written back for a request, byte for byte. */
  let answer: (socket: Socket, path: string) => void = (socket) => socket.end()
  let connections = 0

  before(async () => {
    stage = await EgressFixture.open({
      policy: testPolicy([HOST, { host: 'little.example', budget: { bytes: MIB } }]),
    })
    for (const host of [HOST, 'little.example']) stage.name(host, ['192.0.2.10'])
    const server = createServer((socket) => {
      connections++
      socket.on('error', () => socket.destroy())
      socket.on('data', (chunk: Buffer) => {
        for (const [, path = ''] of chunk.toString('latin1').matchAll(/^GET (\S+) /gm)) answer(socket, path)
      })
    })
    await stage.place('192.0.2.10', 80, server)
  })
  after(() => stage.close())

  const ask = async (paths: readonly string[], host = HOST): Promise<Socket> => {
    const socket = await stage.podd.direct({ name: host, port: 80 })
    for (const path of paths) socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    return socket
  }
  const head = (length: number, more = ''): string =>
    `HTTP/1.1 200 OK\r\nContent-Length: ${length}\r\n${more}\r\n`
  const hashOf = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')

  test('NET-11 arrives exactly, whatever the pieces, and the connection of the client goes on', async () => {
    const body = randomBytes(LENGTH)
    answer = async (socket, path) => {
      if (path === '/small') return void socket.write(`${head(5)}small`)
      socket.write(head(body.length))
      for (let at = 0; at < body.length; ) {
        const size = 1 + Math.floor(Math.random() ** 3 * 200_000)
        if (!socket.write(body.subarray(at, at + size)))
          await new Promise((resolve) => socket.once('drain', resolve))
        at += size
      }
    }
    const client = await ask(['/long', '/small', '/long'])
    const all = await read(client, (bytes) => bytes.length >= 2 * LENGTH + 3 * head(5).length)
    const first = bodyAt(all, 0)
    assert.equal(hashOf(first.body), hashOf(body))
    const second = bodyAt(all, first.end)
    assert.equal(second.body.toString(), 'small')
    assert.equal(hashOf(bodyAt(all, second.end).body), hashOf(body))
    client.destroy()
  })

  test('NET-8 a server that sends more than it announced: the rest reaches nobody', async () => {
    answer = (socket, path) => {
      if (path === '/small') return void socket.write(`${head(5)}small`)
      const forged = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged'
      socket.write(Buffer.concat([Buffer.from(head(LENGTH)), Buffer.alloc(LENGTH, 'x'), Buffer.from(forged)]))
    }
    const client = await ask(['/long'])
    const before = connections
    const all = await read(client, (bytes) => bytes.length >= LENGTH + head(LENGTH).length)
    client.write(`GET /small HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`)
    const rest = await read(client, (bytes) => bytes.includes('small'))
    assert.ok(!Buffer.concat([all, rest]).includes('forged'))
    assert.equal(connections, before + 1, 'the connection was not used again')
    client.destroy()
  })

  for (const [how, leave] of [
    ['ends', (socket: Socket) => socket.end()],
    ['is reset', (socket: Socket) => socket.resetAndDestroy()],
  ] as const)
    test(`NET-8 a server whose connection ${how} early: the client learns that the body is incomplete`, async () => {
      answer = (socket) => {
        socket.write(head(LENGTH))
        socket.write(Buffer.alloc(MIB, 'x'), () => setTimeout(leave, 50, socket))
      }
      const client = await ask(['/long'])
      const all = await read(client, () => false)
      assert.ok(all.length < LENGTH)
    })

  test('NET-10 a budget ends it at the byte', async () => {
    answer = (socket) => {
      socket.write(Buffer.concat([Buffer.from(head(LENGTH)), Buffer.alloc(LENGTH, 'x')]))
    }
    const client = await ask(['/long'], 'little.example')
    const all = await read(client, () => false)
    const { end } = headAt(all, 0)
    assert.ok(all.length - end <= MIB, `${all.length - end} bytes`)
    await new Promise((resolve) => setTimeout(resolve, 150))
    assert.ok(
      stage.records.some(({ reason, host }) => reason === 'budget.bytes' && host === 'little.example'),
    )
  })

  test('NET-5 a new policy ends it', async () => {
    answer = (socket) => void socket.write(Buffer.concat([Buffer.from(head(LENGTH)), Buffer.alloc(MIB, 'x')]))
    const client = await ask(['/long'])
    await read(client, (bytes) => bytes.length > MIB / 2)
    stage.change({ policy: testPolicy(['little.example']) })
    await read(client, () => false)
    stage.change({ policy: testPolicy([HOST, { host: 'little.example', budget: { bytes: MIB } }]) })
  })

  test('NET-11 a client that does not read stops the server, and gets everything later', async () => {
    const body = randomBytes(64 * MIB)
    let sent = 0
    answer = async (socket) => {
      socket.write(head(body.length))
      for (; sent < body.length; sent += MIB)
        if (!socket.write(body.subarray(sent, sent + MIB)))
          await new Promise((resolve) => socket.once('drain', resolve))
    }
    const client = await ask(['/long'])
    client.pause()
    await new Promise((resolve) => setTimeout(resolve, 400))
    const [before, held] = [sent, process.memoryUsage().arrayBuffers]
    await new Promise((resolve) => setTimeout(resolve, 400))
    assert.equal(sent, before)
    assert.ok(sent < 40 * MIB, `${sent / MIB} MiB were sent`)
    assert.ok(process.memoryUsage().arrayBuffers - held < MIB)
    const all = await read(client, (bytes) => bytes.length >= body.length + head(body.length).length)
    assert.equal(hashOf(bodyAt(all, 0).body), hashOf(body))
    client.destroy()
  })
})

/** Reads until there is enough, or to the end. */
function read(socket: Socket, isEnough: (bytes: Buffer) => boolean): Promise<Buffer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = []
    let length = 0
    const finish = (): void => {
      socket.off('data', onData).off('close', finish).off('end', finish)
      socket.pause()
      resolve(Buffer.concat(chunks))
    }
    const onData = (chunk: Buffer): void => {
      chunks.push(chunk)
      length += chunk.length
      // Joining a long body for each chunk would take minutes.
      const bytes =
        length > 4 * MIB ? ({ length, includes: () => false } as unknown as Buffer) : Buffer.concat(chunks)
      if (isEnough(bytes)) finish()
    }
    socket.on('data', onData).on('close', finish).on('end', finish)
    socket.resume()
  })
}

function headAt(bytes: Buffer, at: number): { end: number; length: number } {
  const end = bytes.indexOf('\r\n\r\n', at) + 4
  const text = bytes.toString('latin1', at, end)
  assert.match(text, /^HTTP\/1\.1 200 OK\r\n/)
  return { end, length: Number(/content-length: (\d+)/i.exec(text)?.[1]) }
}

function bodyAt(bytes: Buffer, at: number): { body: Buffer; end: number } {
  const { end, length } = headAt(bytes, at)
  return { body: bytes.subarray(end, end + length), end: end + length }
}
