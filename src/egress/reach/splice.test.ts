import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { createServer, type Server, type Socket } from 'node:net'
import { type Duplex, PassThrough } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { dialSocket } from './dial.ts'
import { ReadingSocket } from './reading-socket.ts'
import { splice } from './splice.ts'

const MIB = 1024 * 1024

/** Connections as the egress process opens them, and their other ends. */
class Stage {
  readonly #server: Server
  readonly #arrived: ((socket: Socket) => void)[] = []
  readonly #all: Socket[] = []

  constructor() {
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#arrived.shift()?.(socket))
  }

  async open(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
  }

  async pair(): Promise<{ ours: Socket; theirs: Socket }> {
    const { port } = this.#server.address() as { port: number }
    const arrival = new Promise<Socket>((resolve) => this.#arrived.push(resolve))
    const ours = await dialSocket({ host: '127.0.0.1', port }, new AbortController().signal)
    const theirs = await arrival
    for (const one of [ours, theirs]) one.on('error', () => undefined)
    this.#all.push(ours, theirs)
    return { ours, theirs }
  }

  close(): void {
    for (const socket of this.#all) socket.destroy()
    this.#server.close()
  }
}

describe('a splice', () => {
  const stage = new Stage()
  before(() => stage.open())
  after(() => stage.close())

  async function joined(spend?: (bytesIn: number, bytesOut: number) => boolean) {
    const [one, other] = [await stage.pair(), await stage.pair()]
    const done = Promise.withResolvers<boolean>()
    const cut = splice({ inside: one.ours, outside: other.ours }, { spend }, done.resolve)
    return { program: one.theirs, server: other.theirs, sockets: [one.ours, other.ours], done, cut }
  }

  test('copies random bytes of random lengths both ways, exactly', async () => {
    const { program, server, sockets, done } = await joined()
    assert.ok(sockets.every((one) => one instanceof ReadingSocket))
    const [out, back] = await Promise.all([
      exchange(program, server, 24 * MIB),
      exchange(server, program, 24 * MIB),
    ])
    assert.equal(out.received, out.sent)
    assert.equal(back.received, back.sent)
    assert.equal(await done.promise, false)
  })

  test('passes the end of one direction on while the other continues', async () => {
    const { program, server, done } = await joined()
    program.end('the question')
    assert.equal((await digest(server)).text, 'the question')
    await pause(50)
    server.write('an answer, ')
    await pause(50)
    server.end('and more')
    assert.equal((await digest(program)).text, 'an answer, and more')
    assert.equal(await done.promise, false)
  })

  for (const [name, first, second] of [
    ['the program', 'program', 'server'],
    ['the server', 'server', 'program'],
  ] as const)
    test(`${name} resets its connection: the other is closed`, async () => {
      const ends = await joined()
      ends[first].write('x')
      assert.equal(String(await new Promise((resolve) => ends[second].once('data', resolve))), 'x')
      const over = new Promise((resolve) => ends[second].once('end', resolve).once('close', resolve))
      ends[first].resetAndDestroy()
      await ends.done.promise
      await over
      ends[second].destroy()
    })

  test('a slow reader stops the sender: what is held does not grow', async () => {
    const { program, server, sockets, cut } = await joined()
    let accepted = 0
    const block = randomBytes(MIB)
    const more = (): void => {
      while (accepted < 512 && server.write(block)) accepted++
      if (accepted < 512) server.once('drain', more)
    }
    program.pause()
    more()
    await pause(300)
    const [before, held] = [accepted, process.memoryUsage().arrayBuffers]
    await pause(300)
    // The buffers of the kernel are full: nothing has moved, and no more than one read waits.
    assert.equal(accepted, before)
    assert.ok(accepted < 64, `${accepted} MiB were accepted`)
    assert.ok(process.memoryUsage().arrayBuffers - held < MIB)
    for (const one of sockets) assert.ok(one.writableLength + one.readableLength <= 256 * 1024)
    cut()
  })

  test('a reader that was slow gets everything, exactly', async () => {
    const { program, server } = await joined()
    const sent = exchange(server, program, 16 * MIB, { startAfterMs: 200, pauseEvery: 64 })
    const { sent: a, received: b } = await sent
    assert.equal(b, a)
  })

  test('bytes that were put back into the stream come first', async () => {
    const [one, other] = [await stage.pair(), await stage.pair()]
    one.theirs.write('hello, ')
    await new Promise((resolve) => one.ours.once('readable', resolve))
    const peeked = one.ours.read() as Buffer
    one.ours.unshift(peeked)
    splice({ inside: one.ours, outside: other.ours }, {}, () => undefined)
    one.theirs.end('world')
    assert.equal((await digest(other.theirs)).text, 'hello, world')
    other.theirs.end()
  })

  test('bytes that were put back come before the end that has arrived too', async () => {
    const [one, other] = [await stage.pair(), await stage.pair()]
    one.theirs.end('all of it')
    await new Promise((resolve) => one.ours.once('readable', resolve))
    await pause(50)
    one.ours.unshift(one.ours.read() as Buffer)
    splice({ inside: one.ours, outside: other.ours }, {}, () => undefined)
    assert.equal((await digest(other.theirs)).text, 'all of it')
    other.theirs.end()
  })

  test('counts every byte, and writes nothing beyond the budget', async () => {
    const left = { bytes: 100_000 }
    let [bytesIn, bytesOut] = [0, 0]
    const { program, server, done } = await joined((inward, outward) => {
      bytesIn += inward
      bytesOut += outward
      left.bytes -= inward + outward
      return left.bytes >= 0
    })
    program.write(Buffer.alloc(40_000))
    await until(() => bytesOut === 40_000)
    server.write(Buffer.alloc(60_000))
    await until(() => bytesIn === 60_000)
    program.write('x')
    assert.equal(await done.promise, true)
    assert.equal(bytesOut, 40_001)
    assert.equal((await digest(server)).length, 40_000)
  })

  test('a stream that is not a socket is copied too', async () => {
    const [inside, other] = [new PassThrough(), await stage.pair()]
    splice({ inside: inside as Duplex, outside: other.ours }, {}, () => undefined)
    inside.end('through a stream')
    assert.equal((await digest(other.theirs)).text, 'through a stream')
    other.theirs.destroy()
  })
})

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

async function until(isSo: () => boolean): Promise<void> {
  for (let tries = 0; !isSo(); tries++) {
    assert.ok(tries < 500, 'it did not happen within five seconds')
    await pause(10)
  }
}

interface Reading {
  readonly startAfterMs?: number
  /** How many chunks to read between two pauses. */
  readonly pauseEvery?: number
}

async function digest(socket: Socket, { startAfterMs = 0, pauseEvery = 0 }: Reading = {}) {
  const hash = createHash('sha256')
  let [length, chunks, text] = [0, 0, '']
  await pause(startAfterMs)
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    hash.update(chunk)
    length += chunk.length
    if (length < 1000) text += chunk
    if (pauseEvery > 0 && ++chunks % pauseEvery === 0) await pause(2)
  }
  return { hash: hash.digest('hex'), length, text }
}

/** Sends random bytes in chunks from one byte to 300 KiB and reads them at the other end. */
async function exchange(from: Socket, to: Socket, total: number, reading?: Reading) {
  const received = digest(to, reading)
  const hash = createHash('sha256')
  for (let left = total; left > 0; ) {
    const chunk = randomBytes(Math.min(left, 1 + Math.floor(Math.random() ** 4 * 300 * 1024)))
    hash.update(chunk)
    left -= chunk.length
    if (!from.write(chunk)) await new Promise((resolve) => from.once('drain', resolve))
  }
  from.end()
  return { sent: hash.digest('hex'), received: (await received).hash }
}
