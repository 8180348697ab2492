/** Conversations with a sandbox that answers as it likes, and with one that answers as it should. */
import assert from 'node:assert/strict'
import { PassThrough, Readable } from 'node:stream'
import { describe, test } from 'node:test'
import { AgentPodError, type ErrorCode, isAgentPodError } from '../core/error.ts'
import type { Guest, GuestRequest, GuestResponse } from '../core/guest.ts'
import { FakeClock, settled } from '../testing/fake-clock.ts'
import { FakeGuest, FakeInside } from '../testing/fake-guest.ts'
import { encodeFrame } from '../util/stream/connect-frame.ts'
import {
  type ConversationEvent,
  conversationState,
  followConversation,
  inputAccepted,
  sendInput,
  startConversation,
} from './conversation.ts'
import { poddProcesses } from './podd/processes.ts'

const NEVER = new AbortController().signal
const CAT = { command: ['cat'], user: 'user', workdir: '', variables: {}, tag: 'job', stdin: true }

function guest(answer: (request: GuestRequest) => GuestResponse | Promise<GuestResponse>): Guest {
  return { processes: poddProcesses(async (request) => answer(request)) } as unknown as Guest
}
const reply = (status: number, body: Readable | string | Buffer): GuestResponse => ({
  status,
  headers: {},
  body: body instanceof Readable ? body : Readable.from([Buffer.from(body)]),
})
const frames = (...events: object[]): Buffer =>
  Buffer.concat([...events.map((event) => encodeFrame({ event })), encodeFrame({}, true)])
const failure = (code: string): Buffer => encodeFrame({ error: { code, message: 'no' } }, true)
const data = (kind: string, text: string): object => ({
  data: { [kind]: Buffer.from(text).toString('base64') },
})
const END = { end: { exitCode: 3, exited: true, signal: 'SIGTERM', oomKilled: true } }

async function fails(work: Promise<unknown>, code: ErrorCode, reason: string): Promise<void> {
  await assert.rejects(work, (error) => isAgentPodError(error, code) && error.reason === reason)
}

async function told(events: AsyncGenerator<ConversationEvent>): Promise<string[]> {
  const list: string[] = []
  for await (const event of events) {
    if (event.kind === 'end') list.push(`end ${event.exit.exitCode}`)
    else if (event.kind === 'gap') list.push(`gap ${event.bytes} ${event.offset}`)
    else list.push(`${event.kind} ${event.offset} ${event.data}`)
  }
  return list
}

async function asked(request: GuestRequest): Promise<Record<string, unknown>> {
  const body = Buffer.concat((await request.body?.toArray()) ?? [])
  return JSON.parse(body.subarray(5).toString())
}

describe('a conversation', () => {
  test('a conversation is started without a shell, and keeps running on its own', async () => {
    const body = new PassThrough()
    body.write(encodeFrame({ event: { start: { pid: 7 } } }))
    let message: unknown
    const headers: unknown[] = []
    await startConversation(
      guest(async (request) => {
        message = await asked(request)
        headers.push(request.path, request.headers['authorization'], request.headers['connect-timeout-ms'])
        return reply(200, body)
      }),
      { ...CAT, command: ['agent', '--x', '$(y)'], workdir: '/srv', variables: { A: 'b' }, timeoutMs: 5000 },
      NEVER,
    )
    assert.deepEqual(message, {
      process: { cmd: 'agent', args: ['--x', '$(y)'], envs: { A: 'b' }, cwd: '/srv' },
      tag: 'job',
      stdin: true,
    })
    assert.deepEqual(headers, ['/process.Process/Start', 'Basic dXNlcjo=', '5000'])
    assert.ok(body.destroyed)
  })

  test('a conversation that already runs is not started twice', async () => {
    await startConversation(
      guest(() => reply(200, failure('already_exists'))),
      CAT,
      NEVER,
    )
    await fails(
      startConversation(
        guest(() => reply(200, failure('not_found'))),
        CAT,
        NEVER,
      ),
      'failed_precondition',
      'inside.failed',
    )
    await fails(
      startConversation(
        guest(() => reply(200, frames())),
        CAT,
        NEVER,
      ),
      'unavailable',
      'stream.cut',
    )
  })

  test('a conversation continues where it was cut, however often', async () => {
    const from: unknown[] = []
    const parts = [
      [data('stdout', 'one'), data('stderr', 'e')],
      [],
      [{ gap: { from: '3', to: '9', stdout: '8' } }, data('stdout', 'two')],
      [{ gap: { from: '11', to: '13', stdout: '11' } }, data('stderr', 'f'), { keepalive: {} }, END],
    ]
    const broken = (events: object[]): Readable => {
      const body = new PassThrough()
      for (const event of events) body.write(encodeFrame({ event }))
      setImmediate(() => body.destroy(new Error('cut')))
      return body
    }
    const events = followConversation(
      guest(async (request) => {
        from.push((await asked(request))['stdout'])
        const part = parts[from.length - 1] ?? []
        return reply(200, from.length === parts.length ? frames(...part) : broken(part))
      }),
      'job',
      { offset: 0, signal: NEVER },
    )
    assert.deepEqual(await told(events), [
      'stdout 0 one',
      'stderr 3 e',
      'gap 5 8',
      'stdout 8 two',
      'stderr 11 f',
      'end 3',
    ])
    assert.deepEqual(from, ['0', '3', '3', '11'])
  })

  test('a conversation that the guest has forgotten is reported as unknown', async () => {
    const gone = guest(({ path }) =>
      path.startsWith('/agentpod/processes')
        ? reply(200, '[{"pid":1,"tag":"other","stdinBytes":"0"}]')
        : path.startsWith('/agentpod/attach')
          ? reply(200, failure('not_found'))
          : reply(404, '{"code":"not_found"}'),
    )
    assert.deepEqual(await conversationState(gone, 'job', NEVER), { kind: 'unknown' })
    await fails(inputAccepted(gone, 'job', NEVER), 'not_found', 'conversation.unknown')
    await fails(
      sendInput(gone, 'job', { offset: 0, data: Buffer.from('x') }, NEVER),
      'not_found',
      'conversation.unknown',
    )
    await fails(
      told(followConversation(gone, 'job', { offset: 0, signal: NEVER })),
      'not_found',
      'conversation.unknown',
    )
  })

  for (const [what, body] of [
    ['a gap that goes back', frames({ gap: { from: '0', to: '9', stdout: '4' } })],
    ['a gap of no number', frames({ gap: { from: '0', to: '9' } })],
    ['a gap beyond numbers', frames({ gap: { stdout: '9999999999999999' } })],
    ['no frames', Buffer.from('hello, world')],
  ] as const)
    test(`SECURITY: ${what} is refused`, async () => {
      const events = followConversation(
        guest(() => reply(200, body)),
        'job',
        { offset: 5, signal: NEVER },
      )
      await fails(told(events), 'data_loss', 'guest.protocol')
    })

  test('SECURITY: malformed answers about a conversation are refused', async () => {
    for (const answer of [
      '{}',
      'x',
      '[{"tag":"job"}]',
      '[{"tag":"job","stdinBytes":"-1"}]',
      '[{"tag":"job","stdinBytes":1.5}]',
    ])
      await fails(
        inputAccepted(
          guest(() => reply(200, answer)),
          'job',
          NEVER,
        ),
        'data_loss',
        'guest.protocol',
      )
  })

  test('following a conversation ends when the caller aborts', async () => {
    const leave = new AbortController()
    const events = followConversation(
      guest(() => {
        setImmediate(() => leave.abort())
        throw new AgentPodError({ code: 'unavailable', reason: 'guest.unreachable', message: 'it is gone' })
      }),
      'job',
      { offset: 0, signal: leave.signal },
    )
    await fails(told(events), 'canceled', 'canceled')
  })

  test('long input of a conversation is sent in parts, each at its offset', async () => {
    const sent: [string, number][] = []
    const accepted = await sendInput(
      guest(async ({ path, body }) => {
        const size = Buffer.concat((await body?.toArray()) ?? []).length
        const offset = new URL(path, 'http://guest').searchParams.get('offset') ?? ''
        sent.push([offset, size])
        return reply(200, JSON.stringify({ stdinBytes: String(Number(offset) + size) }))
      }),
      'job',
      { offset: 7, data: Buffer.alloc(2 * 1024 * 1024 + 5) },
      NEVER,
    )
    assert.deepEqual(sent, [
      ['7', 1048576],
      ['1048583', 1048576],
      ['2097159', 5],
    ])
    assert.equal(accepted, 2097164)
  })

  test('a conversation with a fake guest behaves like one with a real guest', async () => {
    const clock = new FakeClock()
    const inside = new FakeInside(clock, () => undefined)
    const fake = new FakeGuest(inside, clock)
    await startConversation(fake, CAT, NEVER)
    await startConversation(fake, CAT, NEVER)
    assert.equal(inside.processes.length, 1)
    assert.deepEqual(await conversationState(fake, 'job', NEVER), { kind: 'running' })
    assert.equal(await sendInput(fake, 'job', { offset: 0, data: Buffer.from('one\n') }, NEVER), 4)
    await settled()
    assert.equal(await sendInput(fake, 'job', { offset: 2, data: Buffer.from('e\ntwo\n') }, NEVER), 8)
    assert.equal(await inputAccepted(fake, 'job', NEVER), 8)
    await fails(
      sendInput(fake, 'job', { offset: 9, data: Buffer.from('x') }, NEVER),
      'failed_precondition',
      'inside.failed',
    )
    await settled()
    inside.processes[0]?.closeStdin()
    const said = await told(followConversation(fake, 'job', { offset: 2, signal: NEVER }))
    assert.equal(said.join('|'), 'stdout 2 e\n|stdout 4 two\n|end 0')
    assert.equal((await conversationState(fake, 'job', NEVER)).kind, 'ended')
  })
})
