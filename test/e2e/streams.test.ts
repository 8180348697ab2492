/**
 * podd over one byte stream: the promises of the guest protocol hold there too, also when the stream breaks.
 */
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, truncateSync, writeFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { type Duplex, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { isAgentPodError } from '../../src/core/error.ts'
import type { Guest } from '../../src/core/guest.ts'
import { followConversation, startConversation } from '../../src/guest/conversation.ts'
import { poddGuest } from '../../src/guest/podd/client.ts'
import { runInside } from '../../src/guest/run-command.ts'
import {
  PODD,
  type PoddBehindSocket,
  poddBehindSocket,
  poddOnStdio,
  type StreamedPodd,
  USER,
} from '../support/podd.ts'

const NEVER = new AbortController().signal
const MIB = 2 ** 20
const CALL = { timeoutMs: 10_000 }

let stdio: StreamedPodd
let behind: PoddBehindSocket
before(async () => {
  ;[stdio, behind] = await Promise.all([poddOnStdio(), poddBehindSocket(await freePort())])
})
after(async () => {
  await stdio?.[Symbol.asyncDispose]()
  await behind?.[Symbol.asyncDispose]()
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

async function shell(guest: Guest, run: string): Promise<{ output: string; exitCode: number }> {
  const parts: Buffer[] = []
  const command = { run, user: USER, workdir: '/', variables: {} }
  const { exitCode } = await runInside(guest, command, {
    signal: NEVER,
    onOutput: (data) => {
      parts.push(data)
    },
  })
  return { output: Buffer.concat(parts).toString(), exitCode }
}

function content(seed: number, bytes: number): Buffer {
  const block = createHash('sha512').update(String(seed)).digest()
  return Buffer.alloc(bytes, block)
}

function passedThrough(guest: Guest): NonNullable<Guest['passThrough']> {
  assert.ok(guest.passThrough)
  return guest.passThrough.bind(guest)
}

async function upload(guest: Guest, path: string, data: Buffer): Promise<number> {
  const query = new URLSearchParams({ path, username: USER })
  const headers = { 'content-type': 'application/octet-stream', 'content-length': String(data.length) }
  const body = Readable.from(pieces(data), { objectMode: false })
  const answer = await passedThrough(guest)(
    { method: 'POST', path: `/files?${query}`, headers, body },
    { signal: NEVER },
  )
  await buffer(answer.body)
  return answer.status
}

function* pieces(data: Buffer): Generator<Buffer> {
  for (let at = 0; at < data.length; at += 65_536) yield data.subarray(at, at + 65_536)
}

async function download(guest: Guest, path: string, signal = NEVER): Promise<Readable> {
  const query = new URLSearchParams({ path, username: USER })
  const answer = await passedThrough(guest)(
    { method: 'GET', path: `/files?${query}`, headers: {} },
    { signal },
  )
  assert.equal(answer.status, 200)
  return answer.body
}

/** A server on this machine, which is inside for a podd without guards. */
async function serving(
  onConnection: (socket: Socket) => void,
): Promise<{ server: Server; port: number } & Disposable> {
  const server = createServer({ allowHalfOpen: true }, onConnection).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return { server, port, [Symbol.dispose]: () => void server.close() }
}

for (const name of ['stdio', 'socket'] as const) {
  const podd = (): StreamedPodd => (name === 'stdio' ? stdio : behind)

  test(`PROV-7 ${name}: a command runs, and its output and exit code come back`, async () => {
    const { guest } = podd()
    await guest.health(CALL)
    assert.deepEqual(await shell(guest, 'echo out; exit 3'), { output: 'out\n', exitCode: 3 })
  })

  test(`PROV-7 ${name}: large files go both ways at once`, async () => {
    const { guest, directory } = podd()
    const [first, second] = [content(1, 48 * MIB), content(2, 48 * MIB)]
    writeFileSync(join(directory, 'there'), second)
    const [status, got] = await Promise.all([
      upload(guest, join(directory, 'new'), first),
      download(guest, join(directory, 'there')).then(buffer),
    ])
    assert.equal(status, 200)
    assert.ok(got.equals(second), 'what came down')
    assert.ok((await buffer(await download(guest, join(directory, 'new')))).equals(first), 'what went up')
  })

  test(`PROV-7 ${name}: fifty commands at once keep their own output`, async () => {
    const { guest } = podd()
    const all = Array.from({ length: 50 }, (_, i) => shell(guest, `seq ${i}000 ${i}999; exit ${i}`))
    for (const [i, { output, exitCode }] of (await Promise.all(all)).entries()) {
      assert.equal(exitCode, i)
      assert.equal(output, Array.from({ length: 1000 }, (_, n) => `${i * 1000 + n}\n`).join(''))
    }
  })

  test(`PROV-7 ${name}: an abandoned stream ends inside, and the others go on`, async () => {
    const { guest, directory } = podd()
    using echo = await serving((socket) => socket.pipe(socket))
    writeFileSync(join(directory, 'sparse'), '')
    truncateSync(join(directory, 'sparse'), 64 * 1024 * MIB)
    const abort = new AbortController()
    const endless = await download(guest, join(directory, 'sparse'), abort.signal)
    const other = await guest.dial(echo.port, CALL)
    await once(endless, 'data')
    abort.abort()
    await assert.rejects(once(endless.resume(), 'end'))
    other.end('still here')
    assert.equal((await buffer(other)).toString(), 'still here')
    const closed = new Promise<void>((resolve) => {
      echo.server.once('connection', (socket) =>
        socket.on('error', () => undefined).once('close', () => resolve()),
      )
    })
    const tunnel = await guest.dial(echo.port, CALL)
    tunnel.write('x')
    await once(tunnel, 'data')
    tunnel.destroy()
    await closed
  })

  test(`PROV-7 ${name}: a port is reached, and either side may end first`, async () => {
    const { guest } = podd()
    // It ends its own direction at once, and then reads what comes.
    let heard: Promise<Buffer> | undefined
    using first = await serving((socket) => {
      socket.end('bye')
      heard = buffer(socket)
    })
    const tunnel = await guest.dial(first.port, CALL)
    assert.equal((await buffer(tunnel)).toString(), 'bye')
    tunnel.end(content(3, MIB))
    assert.ok((await heard)?.equals(content(3, MIB)), 'what was sent after its end')

    using last = await serving((socket) => void buffer(socket).then((all) => socket.end(`${all.length}`)))
    const counted = await guest.dial(last.port, CALL)
    counted.end(content(4, 3 * MIB))
    assert.equal((await buffer(counted)).toString(), String(3 * MIB))
    last[Symbol.dispose]()
    await assert.rejects(guest.dial(last.port, CALL), (e) => isAgentPodError(e) && e.reason === 'port.closed')
  })

  test(`PROV-7 ${name}: a stream without a reader holds no other back`, async () => {
    const { guest, directory } = podd()
    writeFileSync(join(directory, 'large'), content(5, 32 * MIB))
    const stuck = await Promise.all(
      Array.from({ length: 20 }, () => download(guest, join(directory, 'large'))),
    )
    assert.equal((await shell(guest, 'echo free')).output, 'free\n')
    assert.ok((await buffer(await download(guest, join(directory, 'large')))).equals(content(5, 32 * MIB)))
    for (const body of stuck) body.on('error', () => undefined).destroy()
  })
}

test('PROV-7 a connection that is killed is dialled again, and output continues where it was', async () => {
  const { guest, carriers } = behind
  const script = 'i=0; while [ $i -lt 40 ]; do i=$((i+1)); echo "line $i"; sleep 0.05; done; exit 7'
  const command = ['sh', '-c', script]
  await startConversation(
    guest,
    { command, user: USER, workdir: '/', variables: {}, tag: 'long', stdin: false },
    NEVER,
  )
  let [text, exitCode, kills] = ['', -1, 0]
  for await (const event of followConversation(guest, 'long', { offset: 0, signal: NEVER })) {
    if (event.kind === 'end') exitCode = event.exit.exitCode
    if (event.kind !== 'stdout') continue
    text += event.data.toString()
    if (kills < 3 && text.length > (kills + 1) * 60) {
      kills++
      carriers.at(-1)?.kill('SIGKILL')
    }
  }
  assert.equal(kills, 3)
  assert.equal(exitCode, 7)
  assert.equal(text, Array.from({ length: 40 }, (_, i) => `line ${i + 1}\n`).join(''))
})

test('PROV-7 transfers whose connection is killed at any moment all end, and the next call works', async () => {
  const { guest, directory, carriers } = behind
  writeFileSync(join(directory, 'cut'), content(7, 8 * MIB))
  for (const killedAfterMs of [0, 5, 20, 50, 100]) {
    const transfers = Array.from({ length: 20 }, (_, i) =>
      i % 2 === 0
        ? upload(guest, join(directory, `cut-${i}`), content(i, 4 * MIB))
        : download(guest, join(directory, 'cut')).then(buffer),
    )
    await pause(killedAfterMs)
    carriers.at(-1)?.kill('SIGKILL')
    await Promise.allSettled(transfers)
    await guest.health(CALL)
  }
})

test('PROV-7 a newer connection replaces the older one, whose streams are cut', async () => {
  using echo = await serving((socket) => socket.on('error', () => undefined).pipe(socket))
  const old = await behind.guest.dial(echo.port, CALL)
  old.write('old')
  assert.equal(String((await once(old, 'data'))[0]), 'old')
  const cut = once(old, 'error')
  const streams = behind.another()
  const guest = poddGuest(streams)
  assert.equal((await shell(guest, 'echo new')).output, 'new\n')
  const [error] = await cut
  assert.equal((error as NodeJS.ErrnoException).code, 'ECONNRESET')
  guest.close()
  streams.close()
  // The first one dials again when it is used.
  assert.equal((await shell(behind.guest, 'echo back')).output, 'back\n')
})

test('PROV-7 podd asks for the token, and the token’s file is gone', async () => {
  assert.equal(existsSync(behind.tokenFile), false)
  for (const wrong of [
    `${behind.token.slice(0, -1)}~`,
    'x'.repeat(behind.token.length),
    `${behind.token}x`,
  ]) {
    const streams = behind.another(wrong)
    const refused = await poddGuest(streams)
      .health(CALL)
      .catch((error: unknown) => error)
    assert.ok(isAgentPodError(refused, 'unavailable'), `${wrong} is refused`)
    streams.close()
  }
  const right = behind.another()
  await poddGuest(right).health(CALL)
  right.close()
})

test('PROV-7 a program inside that connects without the token gets no answer', async () => {
  const preface = String.raw`PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0`
  const probe = (opener: string): string =>
    `(printf '${opener}${preface}'; sleep 1) | ${PODD} connect ${behind.name} | wc -c`
  assert.equal((await shell(behind.guest, probe('agentpod '.padEnd(200, 'x')))).output.trim(), '0')
  // The same program with the token gets an answer, so the token is what counts. It replaces the connection
  // that asked for it.
  await startConversation(
    behind.guest,
    {
      command: ['sh', '-c', probe(String.raw`agentpod ${behind.token}\n`)],
      ...{ user: USER, workdir: '/', variables: {}, tag: 'known', stdin: false },
    },
    NEVER,
  )
  let text = ''
  for await (const event of followConversation(behind.guest, 'known', { offset: 0, signal: NEVER }))
    if (event.kind === 'stdout') text += event.data.toString()
  assert.ok(Number(text) > 0, `${text} bytes`)
})

test('an outgoing connection is handed to an egress stream', async () => {
  const parked = await behind.streams.open('egress', NEVER)
  const inside = connect({ port: behind.door, host: '127.0.0.1', allowHalfOpen: true })
  // The program ends its direction before it is answered.
  inside.end('CONNECT example.com:443 HTTP/1.1\r\n\r\n')
  const heard = (await buffer(parked)).toString()
  assert.equal(heard, '{"v":1,"kind":"proxy"}\nCONNECT example.com:443 HTTP/1.1\r\n\r\n')
  parked.end(content(6, MIB))
  assert.ok((await buffer(inside)).equals(content(6, MIB)))
  // A visitor from outside finds the door closed.
  await assert.rejects(
    behind.guest.dial(behind.door, CALL),
    (e) => isAgentPodError(e) && e.reason === 'port.closed',
  )
  // A podd without a door has no such stream.
  await assert.rejects(stdio.streams.open('egress', NEVER), (e) => isAgentPodError(e, 'unavailable'))
})

test('opening a connection can be canceled, and closing one is not final', async () => {
  await assert.rejects(behind.streams.open('api', AbortSignal.abort(new Error('no'))), /no/)
  const stream: Duplex = await behind.streams.open('api', NEVER)
  const cut = once(stream, 'error')
  behind.streams.close()
  await cut
  await behind.guest.health(CALL)
})
