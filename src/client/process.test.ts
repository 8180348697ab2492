// A process followed over connections that break: a real server on a real socket, cut at every byte.

import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { encodeFrame, FrameReader } from '../util/stream/connect-frame.ts'
import { type ExecOptions, Process, startProcess } from './process.ts'
import { Transport } from './transport.ts'

const HEADERS = { 'agentpod-sandbox': 'abcd1234' }
const OUTPUT = [
  ['stdout', 'one '],
  ['stderr', 'Grüße 😀 '],
  ['stdout', 'two '],
  ['stdout', Buffer.from([0, 255, 10, 13])],
  ['stderr', 'three'],
] as const
const STDOUT = Buffer.concat(
  OUTPUT.filter(([kind]) => kind === 'stdout').map(([, text]) => Buffer.from(text)),
)
const STDERR = Buffer.concat(
  OUTPUT.filter(([kind]) => kind === 'stderr').map(([, text]) => Buffer.from(text)),
)

type Handler = (request: IncomingMessage, response: ServerResponse, message: Record<string, unknown>) => void

let directory = ''
let server: Server
let transport: Transport
let handler: Handler
let seen: string[] = []
beforeEach(async () => {
  directory = mkdtempSync(join(tmpdir(), 'agentpod-client-'))
  const socket = join(directory, 'api.sock')
  seen = []
  server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      seen.push(request.url ?? '')
      const body = Buffer.concat(chunks)
      const isStream = request.headers['content-type'] === 'application/connect+json'
      const message = isStream
        ? new FrameReader().push(body)[0]?.message
        : JSON.parse(body.toString() || '{}')
      handler(request, response, message as Record<string, unknown>)
    })
  })
  await new Promise<void>((resolve) => server.listen(socket, resolve))
  transport = new Transport({ socket })
})
afterEach(async () => {
  transport.close()
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  rmSync(directory, { recursive: true })
})

function exec(o: ExecOptions = {}): Process {
  return startProcess(transport, HEADERS, { ...o, command: 'run' })
}

/** The stream of a process from an offset of its output on, as the guest sends it. */
function streamFrom(offset: number): Buffer {
  const frames = [encodeFrame({ event: { start: { pid: 7 } } })]
  let at = 0
  for (const [kind, text] of OUTPUT) {
    const bytes = Buffer.from(text)
    const rest = bytes.subarray(Math.max(0, offset - at))
    at += bytes.length
    if (rest.length > 0) frames.push(encodeFrame({ event: { data: { [kind]: rest.toString('base64') } } }))
  }
  frames.push(encodeFrame({ event: { end: { exitCode: 3, exited: true } } }), encodeFrame({}, true))
  return Buffer.concat(frames)
}

function send(response: ServerResponse, bytes: Buffer): void {
  response.writeHead(200, { 'content-type': 'application/connect+json' })
  response.end(bytes)
}

/** Sends so many bytes of the stream and breaks the connection. */
function cut(response: ServerResponse, bytes: Buffer): void {
  response.writeHead(200, { 'content-type': 'application/connect+json' })
  response.flushHeaders()
  response.write(bytes, () => response.destroy())
}

function refuse(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' })
  response.end(JSON.stringify(body))
}

async function collect(process: Process): Promise<{ stdout: Buffer; stderr: Buffer }> {
  const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  for await (const { stream, data } of process.output())
    parts[stream === 'stderr' ? 'stderr' : 'stdout'].push(data)
  return { stdout: Buffer.concat(parts.stdout), stderr: Buffer.concat(parts.stderr) }
}

async function assertWhole(process: Process): Promise<void> {
  const { stdout, stderr } = await collect(process)
  assert.ok(stdout.equals(STDOUT), `stdout is ${stdout.toString('hex')}`)
  assert.ok(stderr.equals(STDERR), `stderr is ${stderr}`)
  assert.deepEqual(process.exit, { exitCode: 3, signal: undefined, oomKilled: false })
}

test('an unbroken stream delivers all output and the exit', async () => {
  handler = (_, response) => send(response, streamFrom(0))
  const process = exec()
  await assertWhole(process)
  assert.equal(await process.pid, 7)
  assert.deepEqual(seen, ['/process.Process/Start'])
})

test('a stream that is never ended after the exit is left', { timeout: 5000 }, async () => {
  handler = (_, response) => {
    response.writeHead(200, { 'content-type': 'application/connect+json' })
    response.write(streamFrom(0))
  }
  await assertWhole(exec())
})

test('commands one after another use one connection', async () => {
  const connections = new Set<unknown>()
  handler = (request, response) => {
    connections.add(request.socket)
    send(response, streamFrom(0))
  }
  for (let n = 0; n < 3; n++) await assertWhole(exec())
  assert.equal(connections.size, 1)
})

test('a stream that is cut at any byte loses and doubles nothing', { timeout: 30_000 }, async () => {
  const whole = streamFrom(0)
  const cuts = Array.from({ length: whole.length }, (_, i) => i)
  // All at once, each process with a tag of its own: the waits before reconnecting overlap.
  const attached = new Map<string, number>()
  const cutAt = new Map<string, number>()
  handler = (request, response, message) => {
    if (request.url === '/process.Process/Start') {
      const tag = String(message['tag'])
      const at = cuts[cutAt.size] ?? 0
      cutAt.set(tag, at)
      return cut(response, whole.subarray(0, at))
    }
    const { tag } = message['process'] as { tag: string }
    attached.set(tag, (attached.get(tag) ?? 0) + 1)
    send(response, streamFrom(Number(message['offset'])))
  }
  await Promise.all(cuts.map(() => assertWhole(exec())))
  assert.equal(cutAt.size, whole.length)
  assert.ok(attached.size >= whole.length - encodeFrame({}, true).length)
})

test('a stream that is cut after every few bytes arrives in the end', { timeout: 30_000 }, async () => {
  let step = 40
  handler = (request, response, message) => {
    const offset = request.url === '/process.Process/Start' ? 0 : Number(message['offset'])
    step += 25
    const bytes = streamFrom(offset)
    if (step > bytes.length + 200) send(response, bytes)
    else cut(response, bytes.subarray(0, step))
  }
  await assertWhole(exec())
})

test('a start whose answer was lost is found by its tag and not started twice', async () => {
  const started: unknown[] = []
  handler = (request, response, message) => {
    if (request.url === '/process.Process/Start') {
      started.push(message['tag'])
      return void request.socket.destroy()
    }
    assert.deepEqual(message, { process: { tag: started[0] }, offset: '0' })
    send(response, streamFrom(0))
  }
  await assertWhole(exec())
  assert.equal(started.length, 1)
})

test('a start that never arrived is sent again under the same tag', async () => {
  const tags: unknown[] = []
  handler = (request, response, message) => {
    if (request.url === '/process.Process/Start') {
      tags.push(message['tag'])
      return void (tags.length === 1 ? request.socket.destroy() : send(response, streamFrom(0)))
    }
    refuse(response, 404, { code: 'not_found', message: 'no such process' })
  }
  await assertWhole(exec())
  assert.equal(tags.length, 2)
  assert.equal(tags[0], tags[1])
})

test('a process that the sandbox has forgotten after its start is not started again', async () => {
  handler = (request, response) => {
    if (request.url === '/process.Process/Start') return cut(response, streamFrom(0).subarray(0, 90))
    refuse(response, 404, { code: 'not_found', message: 'no such process' })
  }
  await assert.rejects(
    collect(exec()),
    (error) => isAgentPodError(error, 'not_found') && error.reason === 'process.unknown',
  )
  assert.equal(seen.filter((path) => path.endsWith('Start')).length, 1)
})

test('waiting for a process ends at once when its sandbox is gone', async () => {
  handler = (request, response) => {
    if (request.url === '/process.Process/Start') return cut(response, streamFrom(0).subarray(0, 90))
    refuse(response, 404, {
      error: { code: 'not_found', reason: 'sandbox.ended', message: 'it is destroyed' },
    })
  }
  const process = exec()
  const started = performance.now()
  await assert.rejects(
    collect(process),
    (error) => isAgentPodError(error, 'not_found') && error.reason === 'sandbox.ended',
  )
  assert.ok(performance.now() - started < 3000)
})

test('a note replaces output that was not kept, and the output after it is complete', async () => {
  let asked = ''
  handler = (request, response, message) => {
    if (request.url === '/process.Process/Start') {
      const start = encodeFrame({ event: { start: { pid: 7 } } })
      return cut(response, Buffer.concat([start, encodeFrame({ event: { data: { stdout: 'YWI=' } } })]))
    }
    asked = String(message['offset'])
    send(
      response,
      Buffer.concat([
        encodeFrame({ event: { gap: { from: '2', to: '1002' } } }),
        encodeFrame({ event: { data: { stdout: 'eno=' } } }),
        encodeFrame({ event: { end: { exited: true } } }),
      ]),
    )
  }
  const result = await exec().wait()
  assert.equal(asked, '2')
  assert.equal(result.stdout, 'abzz'.slice(0, 2) + Buffer.from('eno=', 'base64').toString())
  assert.match(result.stderr, /1000 bytes of output were not kept/)
  assert.equal(result.exitCode, 0)
})

describe('a failure that reconnecting cannot fix', () => {
  test('an error at the end of the stream is reported as the error of the process', async () => {
    handler = (_, response) =>
      send(response, encodeFrame({ error: { code: 'resource_exhausted', message: 'too many' } }, true))
    await assert.rejects(exec().wait(), (error) => isAgentPodError(error, 'resource_exhausted'))
  })

  test('the error of a refused start is passed on unchanged', async () => {
    handler = (_, response) => refuse(response, 400, { code: 'invalid_argument', message: 'no such user' })
    const process = exec()
    await assert.rejects(process.wait(), (error) => isAgentPodError(error, 'invalid_argument'))
    await assert.rejects(process.pid, (error) => isAgentPodError(error, 'invalid_argument'))
  })

  test('a malformed frame in the output stream is data_loss', async () => {
    handler = (_, response) => send(response, Buffer.from([9, 0, 0, 0, 2, 123, 125]))
    await assert.rejects(exec().wait(), (error) => isAgentPodError(error, 'data_loss'))
  })

  test('a caller that aborts does not have to wait for the process', async () => {
    handler = (_, response) => {
      response.writeHead(200)
      response.write(encodeFrame({ event: { start: { pid: 7 } } }))
    }
    await assert.rejects(exec({ signal: AbortSignal.timeout(50) }).wait(), (error) =>
      isAgentPodError(error, 'canceled'),
    )
  })
})

test('attaching to an unknown process is not found', async () => {
  handler = (_, response) => refuse(response, 404, { code: 'not_found', message: 'no such process' })
  const process = new Process({ transport, headers: HEADERS, selector: { pid: 9 }, options: {} })
  await assert.rejects(process.wait(), (error) => isAgentPodError(error, 'not_found'))
})

test('the result of a process says whether it ended by a signal or ran out of memory', async () => {
  handler = (_, response) =>
    send(
      response,
      Buffer.concat([
        encodeFrame({ event: { start: { pid: 7 } } }),
        encodeFrame({ event: { end: { exitCode: 137, signal: 'SIGKILL', oomKilled: true } } }),
      ]),
    )
  const { exitCode, signal, oomKilled } = await exec().wait()
  assert.deepEqual({ exitCode, signal, oomKilled }, { exitCode: 137, signal: 'SIGKILL', oomKilled: true })
})

test('asking for the exit before the process has ended is an error', () => {
  const giveUp = new AbortController()
  assert.throws(
    () => exec({ signal: giveUp.signal }).exit,
    (error) => isAgentPodError(error, 'conflict'),
  )
  giveUp.abort()
})

test('input, signals and terminal sizes are sent to the process by its tag', async () => {
  const { promise, resolve } = Promise.withResolvers<ServerResponse>()
  const calls: [string, Record<string, unknown>][] = []
  handler = (request, response, message) => {
    if (request.url === '/process.Process/Start') {
      assert.equal(request.headers.authorization, `Basic ${Buffer.from('me:').toString('base64')}`)
      response.writeHead(200)
      response.write(encodeFrame({ event: { start: { pid: 7 } } }))
      return resolve(response)
    }
    calls.push([request.url ?? '', message])
    refuse(response, 200, {})
  }
  const process = exec({ stdin: true, user: 'me' })
  const waiting = process.wait()
  await process.write(Buffer.from('hi'))
  await process.closeStdin()
  await process.signal('SIGTERM')
  await process.resize({ cols: 80, rows: 24 })
  ;(await promise).end(encodeFrame({ event: { end: {} } }))
  await waiting
  assert.deepEqual(
    calls.map(([url]) => url.split('/').at(-1)),
    ['SendInput', 'CloseStdin', 'SendSignal', 'Update'],
  )
  assert.deepEqual(calls[0]?.[1]['input'], { stdin: Buffer.from('hi').toString('base64') })
  assert.equal(calls[2]?.[1]['signal'], 'SIGNAL_SIGTERM')
})
