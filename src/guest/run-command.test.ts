/** Commands of the server inside a sandbox that answers as it likes. */
import assert from 'node:assert/strict'
import { PassThrough, Readable } from 'node:stream'
import { describe, test } from 'node:test'
import { AgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'
import type { Guest, GuestRequest, GuestResponse } from '../core/guest.ts'
import { encodeFrame } from '../util/stream/connect-frame.ts'
import type { Send } from './podd/exchange.ts'
import { poddArchive } from './podd/files.ts'
import { poddProcesses } from './podd/processes.ts'
import { processesInside, runInside, signalInside, startInside, unpackInside } from './run-command.ts'

const COMMAND = { run: 'make', user: 'user', workdir: '/srv', variables: { A: 'b' } }
const NEVER = new AbortController().signal

/** A guest behind podd's protocol, answered as a test says. */
function guest(
  answer: (request: GuestRequest, signal: AbortSignal) => GuestResponse | Promise<GuestResponse>,
): Guest {
  const send: Send = async (request, o) => answer(request, o.signal)
  return { processes: poddProcesses(send), archive: poddArchive(send) } as unknown as Guest
}

const reply = (status: number, body: Readable | string | Buffer): GuestResponse => ({
  status,
  headers: {},
  body: body instanceof Readable ? body : Readable.from([Buffer.from(body)]),
})
const frames = (...events: object[]): Buffer =>
  Buffer.concat([...events.map((event) => encodeFrame({ event })), encodeFrame({}, true)])
const output = (text: string): object => ({ data: { stdout: Buffer.from(text).toString('base64') } })

async function fails(work: Promise<unknown>, code: ErrorCode, reason?: string): Promise<AgentPodError> {
  try {
    await work
  } catch (error) {
    assert.ok(isAgentPodError(error, code), String(error))
    if (reason !== undefined) assert.equal(error.reason, reason)
    return error
  }
  assert.fail('it did not fail')
}

describe('a command', () => {
  test('runInside sends the command unchanged, and delivers its output and end', async () => {
    const asked: unknown[] = []
    const said: string[] = []
    const end = await runInside(
      guest(async (request) => {
        const body = Buffer.concat((await request.body?.toArray()) ?? [])
        asked.push(
          request.path,
          request.headers['connect-timeout-ms'],
          request.headers['authorization'],
          JSON.parse(body.subarray(5).toString()),
        )
        return reply(
          200,
          frames(
            { start: { pid: 7 } },
            output('one'),
            { keepalive: {} },
            { data: { stderr: 'dHdv' } },
            { end: { exitCode: 3, exited: true } },
          ),
        )
      }),
      { ...COMMAND, tag: 'x', timeoutMs: 5000 },
      { signal: NEVER, onOutput: (data) => void said.push(data.toString()) },
    )
    assert.deepEqual(end, { exitCode: 3, signal: undefined, oomKilled: false })
    assert.deepEqual(said, ['one', 'two'])
    assert.deepEqual(asked, [
      '/process.Process/Start',
      '5000',
      `Basic ${Buffer.from('user:').toString('base64')}`,
      {
        process: { cmd: '/bin/sh', args: ['-c', 'make'], envs: { A: 'b' }, cwd: '/srv' },
        tag: 'x',
        stdin: false,
      },
    ])
  })

  test('a command without an exit code in its end has succeeded', async () => {
    const end = await runInside(
      guest(() => reply(200, frames({ end: { exited: true } }))),
      COMMAND,
      { signal: NEVER },
    )
    assert.equal(end.exitCode, 0)
  })

  test('the end of a killed command has its signal', async () => {
    const answer = frames({ end: { exitCode: 137, signal: 'SIGKILL', oomKilled: true } })
    assert.deepEqual(
      await runInside(
        guest(() => reply(200, answer)),
        COMMAND,
        { signal: NEVER },
      ),
      {
        exitCode: 137,
        signal: 'SIGKILL',
        oomKilled: true,
      },
    )
  })

  test('a command that takes too long is deadline_exceeded', async () => {
    const body = Buffer.concat([
      encodeFrame({ event: output('x') }),
      encodeFrame({ error: { code: 'deadline_exceeded', message: 'over' } }, true),
    ])
    await fails(
      runInside(
        guest(() => reply(200, body)),
        COMMAND,
        { signal: NEVER },
      ),
      'deadline_exceeded',
      'inside.late',
    )
  })

  test('a slow reader of the output slows down the command', async () => {
    const body = new PassThrough({ highWaterMark: 1 })
    const said: string[] = []
    let go = (): void => undefined
    const running = runInside(
      guest(() => reply(200, body)),
      COMMAND,
      {
        signal: NEVER,
        onOutput: (data) => {
          said.push(data.toString())
          return new Promise((resolve) => {
            go = resolve
          })
        },
      },
    )
    for (const text of ['a', 'b']) body.write(encodeFrame({ event: output(text) }))
    body.end(frames({ end: {} }))
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(said, ['a'])
    go()
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve))
    assert.deepEqual(said, ['a', 'b'])
    go()
    await running
  })

  test('runInside ends when the caller aborts, also before any output was read', async () => {
    for (const onOutput of [undefined, () => new Promise<void>(() => undefined)]) {
      const leave = new AbortController()
      const body = new PassThrough()
      body.write(encodeFrame({ event: output('x') }))
      const running = runInside(
        guest((_, signal) => {
          signal.addEventListener('abort', () => body.destroy(new Error('aborted')))
          return reply(200, body)
        }),
        COMMAND,
        { signal: leave.signal, ...(onOutput && { onOutput }) },
      )
      setImmediate(() => leave.abort())
      await fails(running, 'canceled')
      assert.ok(body.destroyed)
    }
  })

  test('a command that is aborted before it starts is canceled, not unavailable', async () => {
    const unreachable = new AgentPodError({ code: 'unavailable', reason: 'guest.unreachable', message: 'x' })
    const away = guest(() => Promise.reject(unreachable))
    await fails(runInside(away, COMMAND, { signal: AbortSignal.abort() }), 'canceled')
    await fails(runInside(away, COMMAND, { signal: NEVER }), 'unavailable', 'guest.unreachable')
  })

  const BAD: readonly (readonly [string, Readable | Buffer, ErrorCode])[] = [
    ['nothing', Buffer.alloc(0), 'unavailable'],
    ['no end', encodeFrame({ event: output('x') }), 'unavailable'],
    ['noise', Buffer.from('no frames at all, only words'), 'data_loss'],
    ['a frame without end', Buffer.from([0, 255, 255, 255, 255]), 'data_loss'],
    ['null', encodeFrame(null), 'unavailable'],
    ['a number', Buffer.concat([encodeFrame(7), encodeFrame({}, true)]), 'unavailable'],
    ['an error that is none', encodeFrame({ error: 7 }, true), 'failed_precondition'],
  ]
  for (const [what, body, code] of BAD)
    test(`a command that is answered with ${what} is an AgentPodError`, async () => {
      await fails(
        runInside(
          guest(() => reply(200, body)),
          COMMAND,
          { signal: NEVER },
        ),
        code,
      )
    })

  test('SECURITY: error texts of a sandbox are cut and contain no control characters', async () => {
    const evil = `\u001b[2J\u202e\u2028${'x'.repeat(100_000)}`
    const inStream = encodeFrame({ error: { code: 'unknown', message: evil } }, true)
    for (const answer of [
      reply(200, inStream),
      reply(400, JSON.stringify({ message: evil })),
      reply(500, 'x'.repeat(1_000_000)),
      reply(502, '\u001b[2J'),
    ]) {
      const { message } = await fails(
        runInside(
          guest(() => answer),
          COMMAND,
          { signal: NEVER },
        ),
        'failed_precondition',
        'inside.failed',
      )
      assert.ok(message.length < 400)
      assert.doesNotMatch(message, /[\p{C}\p{Zl}\p{Zp}]/u)
    }
  })

  test('startInside yields events from the start of the command', async () => {
    const kinds: string[] = []
    const { events } = startInside(
      guest(() => reply(200, frames({ start: {} }, output('x'), { end: {} }))),
      COMMAND,
      NEVER,
    )
    for await (const { kind } of events) kinds.push(kind)
    assert.deepEqual(kinds, ['start', 'output', 'end'])
  })
})

describe('processes', () => {
  test('processesInside lists the processes with a tag, and which of them run', async () => {
    const list = [
      { pid: 1, tag: 'a', stdinBytes: '0' },
      { pid: 2, tag: 'b', endedAt: '2001', stdinBytes: '0' },
      { pid: 3, stdinBytes: '0' },
    ]
    assert.deepEqual(
      await processesInside(
        guest(() => reply(200, JSON.stringify(list))),
        NEVER,
      ),
      [
        { tag: 'a', isRunning: true },
        { tag: 'b', isRunning: false },
      ],
    )
  })

  for (const body of [
    '{}',
    'null',
    'nonsense',
    '',
    '[7]',
    '[null]',
    '[{"pid":1}]',
    `["${'x'.repeat(70_000_000)}"]`,
  ])
    test(`${JSON.stringify(body.slice(0, 20))} is refused as a list of processes`, async () => {
      await fails(
        processesInside(
          guest(() => reply(200, body)),
          NEVER,
        ),
        'data_loss',
      )
    })

  test('signalInside sends signals, and succeeds if the process is gone', async () => {
    const asked: unknown[] = []
    const on = (status: number): Guest =>
      guest(async ({ body }) => {
        asked.push(JSON.parse(Buffer.concat((await body?.toArray()) ?? []).toString()))
        return reply(status, '{}')
      })
    await signalInside(on(200), 'a', 'SIGTERM', NEVER)
    await signalInside(on(404), 'a', 'SIGINT', NEVER)
    assert.deepEqual(asked, [
      { process: { tag: 'a' }, signal: 'SIGNAL_SIGTERM' },
      { process: { tag: 'a' }, signal: 'SIGNAL_SIGINT' },
    ])
    await fails(signalInside(on(500), 'a', 'SIGINT', NEVER), 'failed_precondition', 'inside.failed')
  })
})

describe('an archive', () => {
  const unpack = (to: Guest, archive: Readable, signal = NEVER): Promise<void> =>
    unpackInside(to, { archive, to: '/srv/a b&c', user: 'user', signal })

  test('unpackInside unpacks into the directory, as the user', async () => {
    let [path, user]: unknown[] = []
    const archive = Readable.from(['data'])
    await unpack(
      guest(async (request) => {
        path = request.path
        user = request.headers['authorization']
        await request.body?.toArray()
        return reply(200, '{}')
      }),
      archive,
    )
    assert.equal(path, '/agentpod/tar?path=%2Fsrv%2Fa+b%26c')
    assert.equal(user, `Basic ${Buffer.from('user:').toString('base64')}`)
    assert.ok(archive.destroyed)
  })

  test('unpackInside passes on the error of a damaged archive unchanged', async () => {
    const damaged = new AgentPodError({ code: 'data_loss', reason: 'build.digest', message: 'x' })
    const archive = new Readable({ read: () => archive.destroy(damaged) })
    const to = guest(
      ({ body }) =>
        new Promise((_, reject) => {
          body?.on('error', () =>
            reject(new AgentPodError({ code: 'unavailable', reason: 'guest.unreachable', message: 'x' })),
          )
          body?.resume()
        }),
    )
    await fails(unpack(to, archive), 'data_loss', 'build.digest')
  })

  test('unpackInside reports the sandbox’s refusal, and destroys the archive stream', async () => {
    const archive = Readable.from(['data'])
    await fails(
      unpack(
        guest(() => reply(413, '{"message":"too many entries"}')),
        archive,
      ),
      'failed_precondition',
      'inside.failed',
    )
    assert.ok(archive.destroyed)
  })
})
