/**
 * envd's protocol over a guest that does not speak it. Against a real podd:
 * test/e2e/envd-conformance.test.ts.
 */
import assert from 'node:assert/strict'
import { Readable } from 'node:stream'
import { beforeEach, describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import type { Guest, GuestInit, GuestRequest } from '../../core/guest.ts'
import type { FileChange } from '../../core/guest-files.ts'
import type { ProcessEvent } from '../../core/guest-process.ts'
import { FakeClock, settled } from '../../testing/fake-clock.ts'
import { FakeGuest, FakeInside } from '../../testing/fake-guest.ts'
import { encodeFrame, FrameReader } from '../../util/stream/connect-frame.ts'
import { EnvdServer } from './server.ts'

const INIT: GuestInit = {
  env: { SET: 'at init' },
  defaultUser: 'user',
  defaultWorkdir: '/srv',
  sudo: false,
  lease: { remainingMs: 0, idleMs: 0 },
}
const UNARY = { 'content-type': 'application/json' }
const STREAM = { 'content-type': 'application/connect+json' }

let clock: FakeClock
let inside: FakeInside
let guest: Guest
let envd: EnvdServer
let ended: AbortController

beforeEach(async () => {
  clock = new FakeClock()
  inside = new FakeInside(clock, () => undefined)
  guest = new FakeGuest(inside, clock)
  await guest.configure(INIT, { timeoutMs: 1000 })
  ended = new AbortController()
  envd = new EnvdServer(guest, ended.signal)
})

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly body: Buffer
}

async function ask(
  call: string,
  o: { headers?: Record<string, string>; body?: Buffer | string; signal?: AbortSignal } = {},
): Promise<Answer> {
  const [method = '', path = ''] = call.split(' ')
  const body = o.body === undefined ? undefined : Readable.from([Buffer.from(o.body)], { objectMode: false })
  const request: GuestRequest = { method, path, headers: o.headers ?? {}, body }
  const answer = await envd.handle(request, { signal: o.signal ?? AbortSignal.timeout(5000) })
  return { ...answer, body: Buffer.concat(await answer.body.toArray()) }
}

const json = ({ body }: Answer): unknown => JSON.parse(body.toString())
const codeOf = (answer: Answer): unknown => [answer.status, (json(answer) as { code?: unknown }).code]
const unary = (method: string, message: unknown, headers = {}): Promise<Answer> =>
  ask(`POST /${method}`, { headers: { ...UNARY, ...headers }, body: JSON.stringify(message) })
const frames = ({ body }: Answer): unknown[] => new FrameReader().push(body).map(({ message }) => message)
const stream = async (method: string, message: unknown, headers = {}): Promise<unknown[]> =>
  frames(await ask(`POST /${method}`, { headers: { ...STREAM, ...headers }, body: encodeFrame(message) }))
const start = (process: object, more: object = {}, headers = {}): Promise<unknown[]> =>
  stream('process.Process/Start', { process, ...more }, headers)
const out = (text: string): object => ({ event: { data: { stdout: Buffer.from(text).toString('base64') } } })
const END = { event: { end: { exited: true, status: 'exit status 0' } } }
const failure = (code: string): RegExp => new RegExp(`"error":\\{"code":"${code}"`)

/** A guest with one part of the test's own. */
const guestWith = (part: Partial<Guest>): Guest => ({
  health: (o) => guest.health(o),
  configure: (init, o) => guest.configure(init, o),
  stats: (o) => guest.stats(o),
  dial: (port, o) => guest.dial(port, o),
  close: () => undefined,
  processes: guest.processes,
  files: guest.files,
  archive: guest.archive,
  ...part,
})

describe('processes', () => {
  test('envd: Start runs the command of the message and streams its output and end', async () => {
    assert.deepEqual(await start({ cmd: 'echo', args: ['hello'] }), [
      { event: { start: { pid: 2 } } },
      out('hello\n'),
      END,
      {},
    ])
    const own = await start({ cmd: 'sh', args: ['-c', 'printenv A; pwd'], envs: { A: 'b' }, cwd: '/x' })
    assert.deepEqual(own.slice(1, 3), [out('b\n'), out('/x\n')])
    const other = await start({ cmd: 'sh', args: ['-c', 'printenv SET; pwd'] })
    assert.deepEqual(other.slice(1, 3), [out('at init\n'), out('/srv\n')])
  })

  test('envd: a process runs as the user of the call, or the default user', async () => {
    const users = await Promise.all([
      start({ cmd: 'id' }),
      start({ cmd: 'id' }, {}, { authorization: `Basic ${Buffer.from('root:').toString('base64')}` }),
    ])
    assert.deepEqual(
      users.map((one) => one[1]),
      [out('user\n'), out('root\n')],
    )
    const bad = await start({ cmd: 'id' }, {}, { authorization: 'Bearer x' })
    assert.match(JSON.stringify(bad), failure('unauthenticated'))
  })

  test('envd: the end of a process has its exit code or signal', async () => {
    const [, end] = await start({ cmd: 'exit', args: ['3'] })
    const status = { status: 'exit status 3', error: 'exit status 3' }
    assert.deepEqual(end, { event: { end: { exitCode: 3, exited: true, ...status } } })
    const running = start({ cmd: 'sleep', args: ['600'] }, { tag: 'long' })
    await settled()
    assert.equal(
      (await unary('process.Process/SendSignal', { process: { tag: 'long' }, signal: 15 })).status,
      200,
    )
    const [, killed] = await running
    const said = {
      exitCode: 137,
      status: 'signal: terminated',
      error: 'signal: terminated',
      signal: 'SIGTERM',
    }
    assert.deepEqual(killed, { event: { end: said } })
  })

  test('envd: a process is killed when its timeout is over', async () => {
    const running = start({ cmd: 'sleep', args: ['600'] }, {}, { 'connect-timeout-ms': '300' })
    await settled()
    await clock.advance(300)
    assert.match(JSON.stringify(await running), failure('deadline_exceeded'))
    assert.equal(inside.processes[0]?.exitCode, 137)
  })

  test('envd: input of a process is delivered and counted, and its stdin can be closed', async () => {
    const process = { tag: 'cat' }
    const running = start({ cmd: 'cat' }, process)
    await settled()
    const stdin = (text: string): object => ({ stdin: Buffer.from(text).toString('base64url') })
    await unary('process.Process/SendInput', { process, input: stdin('a>?') })
    const by = await ask('POST /agentpod/input?tag=cat&offset=2', { body: '?b' })
    assert.deepEqual(json(by), { stdinBytes: '4' })
    const streamed = await ask('POST /process.Process/StreamInput', {
      headers: STREAM,
      body: Buffer.concat([
        encodeFrame({ start: { process } }),
        encodeFrame({ data: { input: stdin('c') } }),
        encodeFrame({}, true),
      ]),
    })
    assert.deepEqual(frames(streamed), [{}, {}])
    assert.equal((await unary('process.Process/CloseStdin', { process })).status, 200)
    const said = (await running).flatMap((one) =>
      Object.values((one as ReturnType<typeof out> as never)['event']?.['data'] ?? {}),
    )
    assert.equal(said.map((text) => Buffer.from(String(text), 'base64').toString()).join(''), 'a>?bc')
  })

  test('envd: List has running processes, and /agentpod/processes has all of them', async () => {
    await start({ cmd: 'true' }, { tag: 'over' })
    const running = start({ cmd: 'sleep', args: ['9'] }, { tag: 'on' })
    await settled()
    assert.deepEqual(json(await unary('process.Process/List', {})), {
      processes: [{ config: { cmd: 'sleep', args: ['9'] }, pid: 3, tag: 'on' }],
    })
    const ours = json(await ask('GET /agentpod/processes')) as Record<string, unknown>[]
    assert.deepEqual(
      ours.map(({ tag, exitCode }) => [tag, exitCode]),
      [
        ['over', 0],
        ['on', undefined],
      ],
    )
    assert.equal((json(await ask('GET /agentpod/processes?tag=on')) as unknown[]).length, 1)
    inside.end()
    await assert.rejects(running)
  })

  test('envd: a process can be followed again from an offset, or from now', async () => {
    await start({ cmd: 'sh', args: ['-c', 'echo one; echo two'] }, { tag: 'x' })
    const process = { tag: 'x' }
    const from = async (place: object): Promise<unknown> =>
      (await stream('agentpod/attach', { process, ...place }))[1]
    assert.deepEqual(await from({ offset: '5' }), out('wo\n'))
    assert.deepEqual(await from({ stdout: 4 }), out('two\n'))
    assert.deepEqual(await stream('process.Process/Connect', { process }), [
      { event: { start: { pid: 2 } } },
      END,
      {},
    ])
    for (const [message, code] of [
      [{ process, offset: '99' }, 'invalid_argument'],
      [{ process, offset: -1 }, 'invalid_argument'],
      [{ process: { tag: 'none' } }, 'not_found'],
    ] as const)
      assert.match(JSON.stringify(await stream('agentpod/attach', message)), failure(code))
  })

  test('envd: the timeout of a follower leaves the process running', async () => {
    const running = start({ cmd: 'sleep', args: ['600'] }, { tag: 'x' })
    await settled()
    const left = await stream(
      'process.Process/Connect',
      { process: { pid: 2 } },
      { 'connect-timeout-ms': '50' },
    )
    assert.match(JSON.stringify(left), failure('deadline_exceeded'))
    assert.equal(inside.processes[0]?.exitCode, undefined)
    inside.processes[0]?.kill()
    await running
  })

  test('envd: a timeout longer than any timer does not fire at once', async () => {
    const running = start({ cmd: 'sleep', args: ['600'] }, { tag: 'x' })
    await settled()
    const process = { tag: 'x' }
    const following = stream('process.Process/Connect', { process }, { 'connect-timeout-ms': '9999999999' })
    await new Promise((resolve) => setTimeout(resolve, 50))
    inside.processes[0]?.kill()
    assert.doesNotMatch(JSON.stringify(await following), failure('deadline_exceeded'))
    await running
  })

  test('envd: a quiet stream gets keepalives', async () => {
    const running = start({ cmd: 'sleep', args: ['600'] }, { tag: 'x' }, { 'keepalive-ping-interval': '1' })
    await new Promise((resolve) => setTimeout(resolve, 1500))
    inside.processes[0]?.kill()
    assert.deepEqual((await running)[1], { event: { keepalive: {} } })
  })

  test('envd: when a client disconnects, the call to the guest is aborted', async () => {
    const asked: AbortSignal[] = []
    const processes = {
      ...guest.processes,
      async *start(_: unknown, o: { signal: AbortSignal }): AsyncGenerator<ProcessEvent> {
        asked.push(o.signal)
        yield { kind: 'start', pid: 7 }
        await new Promise((_, reject) => o.signal.addEventListener('abort', () => reject(o.signal.reason)))
      },
    }
    const server = new EnvdServer(guestWith({ processes }), ended.signal)
    const body = Readable.from([encodeFrame({ process: { cmd: 'x' } })], { objectMode: false })
    const request = { method: 'POST', path: '/process.Process/Start', headers: STREAM, body }
    const answer = await server.handle(request, { signal: AbortSignal.timeout(5000) })
    await answer.body[Symbol.asyncIterator]().next()
    answer.body.destroy()
    await new Promise((resolve) => answer.body.once('close', resolve))
    assert.ok(asked[0]?.aborted)
  })

  test('envd: gaps and terminal output are passed on', async () => {
    const asked: unknown[] = []
    const processes = {
      ...guest.processes,
      async *start(command: unknown): AsyncGenerator<ProcessEvent> {
        asked.push(command)
        yield { kind: 'start', pid: 7 }
        yield { kind: 'gap', from: 1, to: 9, stdout: 4 }
        yield { kind: 'pty', data: Buffer.from('x') }
        yield { kind: 'end', exit: { exitCode: 0, signal: undefined, oomKilled: true } }
      },
      resize: async (...all: unknown[]) => void asked.push(all.slice(0, 2)),
    }
    envd = new EnvdServer(guestWith({ processes }), ended.signal)
    const said = await start({ cmd: 'sh' }, { pty: { size: { cols: 80, rows: 24 } } })
    assert.deepEqual(said.slice(1, 3), [
      { event: { gap: { from: '1', to: '9', stdout: '4' } } },
      { event: { data: { pty: 'eA==' } } },
    ])
    await unary('process.Process/Update', { process: { pid: 7 }, pty: { size: { cols: 1 } } })
    assert.deepEqual((asked[0] as { pty: unknown }).pty, { cols: 80, rows: 24 })
    assert.deepEqual(asked[1], [{ pid: 7 }, { cols: 1, rows: 0 }])
  })
})

describe('files', () => {
  const asFile = { 'content-type': 'application/octet-stream' }

  test('envd: files are written and read', async () => {
    const written = await ask('POST /files?path=/a/b', { headers: asFile, body: 'content' })
    assert.deepEqual(json(written), [{ name: 'b', path: '/a/b', type: 'file' }])
    const { status, headers, body } = await ask('GET /files?path=/a/b')
    assert.deepEqual([status, headers['content-length'], body.toString()], [200, '7', 'content'])
    assert.equal(headers['content-disposition'], "inline; filename*=UTF-8''b")
  })

  test('envd: files can be uploaded as a form and with gzip', async () => {
    const form =
      '--b\r\nContent-Disposition: form-data; name="file"; filename="/one"\r\n\r\n1\r\n' +
      '--b\r\nContent-Disposition: form-data; name="file"; filename="/two"\r\n\r\n2\r\n--b--'
    const headers = { 'content-type': 'multipart/form-data; boundary="b"', 'content-encoding': 'gzip' }
    assert.equal((await ask('POST /files', { headers, body: gzipSync(form) })).status, 200)
    assert.deepEqual([inside.files.get('/one')?.toString(), inside.files.get('/two')?.toString()], ['1', '2'])
    assert.deepEqual(codeOf(await ask('POST /files?path=/x', { headers, body: gzipSync(form) })), [
      400,
      'invalid_argument',
    ])
  })

  test('SECURITY: envd: a decompression bomb is refused', async () => {
    const bomb = gzipSync(Buffer.alloc(80 * 1024 * 1024))
    const headers = { ...asFile, 'content-encoding': 'gzip' }
    assert.deepEqual(codeOf(await ask('POST /files?path=/bomb', { headers, body: bomb })), [
      413,
      'resource_exhausted',
    ])
    assert.ok(!inside.files.has('/bomb'))
    // The control: what grows less passes.
    const small = gzipSync(Buffer.alloc(1024 * 1024))
    assert.equal((await ask('POST /files?path=/small', { headers, body: small })).status, 200)
  })

  test('envd: files are described, listed, moved and removed', async () => {
    inside.files.set('/d/a', Buffer.from('abc'))
    inside.files.set('/d/e/f', Buffer.from(''))
    const entry = json(await unary('filesystem.Filesystem/Stat', { path: '/d/a' })) as { entry: object }
    assert.deepEqual(entry.entry, {
      name: 'a',
      type: 'FILE_TYPE_FILE',
      path: '/d/a',
      size: '3',
      mode: 0o644,
      permissions: '-rw-r--r--',
      owner: 'user',
      group: 'user',
      modifiedTime: '2001-01-01T00:00:00Z',
    })
    assert.deepEqual(json(await unary('filesystem.Filesystem/ListDir', { path: '/d' })), {
      entries: [entry.entry],
    })
    const deep = json(await unary('filesystem.Filesystem/ListDir', { path: '/d', depth: 2 })) as {
      entries: []
    }
    assert.equal(deep.entries.length, 2)
    assert.deepEqual(json(await unary('filesystem.Filesystem/ListDir', { path: '/none' })), {})
    await unary('filesystem.Filesystem/Move', { source: '/d/a', destination: '/b' })
    await unary('filesystem.Filesystem/Remove', { path: '/d/e/f' })
    assert.deepEqual([...inside.files.keys()], ['/b'])
  })

  test('envd: file calls act as the user of the call, by the rules that the server set', async () => {
    const seen: unknown[] = []
    const files = {
      ...guest.files,
      async remove(
        path: string,
        { user, withSudo }: { user?: string | undefined; withSudo?: boolean | undefined },
      ) {
        seen.push([path, user, withSudo])
      },
    }
    envd = new EnvdServer(guestWith({ files }), ended.signal)
    await unary('filesystem.Filesystem/Remove', { path: '/a' })
    await unary(
      'filesystem.Filesystem/Remove?username=me',
      { path: '/b' },
      { 'agentpod-file-rules': 'agentpod' },
    )
    await unary('filesystem.Filesystem/Remove', { path: '/c' }, { 'agentpod-file-rules': 'e2b' })
    assert.deepEqual(seen, [
      ['/a', undefined, false],
      ['/b', 'me', false],
      ['/c', undefined, true],
    ])
  })

  test('envd: archives are unpacked', async () => {
    const header = Buffer.alloc(512)
    header.write('x', 0)
    header.write('00000000003', 124)
    header.write('0', 156)
    const archive = Buffer.concat([header, Buffer.from('abc'), Buffer.alloc(509 + 1024)])
    assert.equal((await ask('POST /agentpod/tar?path=/to', { body: archive })).status, 200)
    assert.equal(inside.files.get('/to/x')?.toString(), 'abc')
  })

  test('envd: a directory can be watched by a stream and by polling', async () => {
    const news: FileChange[] = [
      { name: 'a', kind: 'create' },
      { name: 'a', kind: 'remove' },
    ]
    const files = {
      ...guest.files,
      watch: async (_: string, { signal }: { signal: AbortSignal }): Promise<AsyncIterable<FileChange>> =>
        (async function* () {
          yield* news
          await new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
        })(),
    }
    envd = new EnvdServer(guestWith({ files }), ended.signal)
    const said = await stream(
      'filesystem.Filesystem/WatchDir',
      { path: '/d' },
      { 'connect-timeout-ms': '50' },
    )
    assert.deepEqual(said.slice(0, 2), [
      { start: {} },
      { filesystem: { name: 'a', type: 'EVENT_TYPE_CREATE' } },
    ])
    const made = json(await unary('filesystem.Filesystem/CreateWatcher', { path: '/d' })) as object
    await settled()
    const events = json(await unary('filesystem.Filesystem/GetWatcherEvents', made)) as { events: [] }
    assert.equal(events.events.length, 2)
    assert.deepEqual(json(await unary('filesystem.Filesystem/GetWatcherEvents', made)), {})
    assert.equal((await unary('filesystem.Filesystem/RemoveWatcher', made)).status, 200)
    assert.deepEqual(codeOf(await unary('filesystem.Filesystem/GetWatcherEvents', made)), [404, 'not_found'])
  })

  test('SECURITY: envd: the number of watchers and of their unread changes is limited', async () => {
    let opened = 0
    const files = {
      ...guest.files,
      watch: async (): Promise<AsyncIterable<FileChange>> =>
        (async function* (): AsyncGenerator<FileChange> {
          const most = opened++ === 0 ? 100_000 : 0
          for (let i = 0; i < most; i++) yield { name: String(i), kind: 'write' }
        })(),
    }
    envd = new EnvdServer(guestWith({ files }), ended.signal)
    const made = await Promise.all(
      Array.from({ length: 70 }, () => unary('filesystem.Filesystem/CreateWatcher', { path: '/' })),
    )
    assert.equal(made.filter(({ status }) => status === 200).length, 64)
    await new Promise((resolve) => setTimeout(resolve, 200))
    const watcher = json(made[0] ?? assert.fail()) as object
    const held = json(await unary('filesystem.Filesystem/GetWatcherEvents', watcher)) as { events: [] }
    assert.ok(held.events.length <= 8193, String(held.events.length))
    assert.deepEqual(codeOf(await unary('filesystem.Filesystem/GetWatcherEvents', watcher)), [
      500,
      'data_loss',
    ])
  })
})

describe('what cannot be done', () => {
  test('envd: a call that the guest does not support is unimplemented', async () => {
    assert.deepEqual(codeOf(await unary('filesystem.Filesystem/MakeDir', { path: '/d' })), [
      501,
      'unimplemented',
    ])
    assert.deepEqual(codeOf(await ask('GET /agentpod/tar?path=/')), [501, 'unimplemented'])
    assert.match(
      JSON.stringify(await stream('filesystem.Filesystem/WatchDir', { path: '/' })),
      failure('unimplemented'),
    )
    for (const call of [
      'GET /envs',
      'GET /metrics',
      'PUT /agentpod/init',
      'PUT /agentpod/lease',
      'GET /constructor',
    ])
      assert.deepEqual(codeOf(await ask(call)), [404, 'unimplemented'], call)
    assert.deepEqual(codeOf(await ask('GET /process.Process/List')), [405, 'unimplemented'])
  })

  test('envd: an unreachable guest rejects the call instead of answering it', async () => {
    inside.end()
    for (const call of ['GET /health', 'GET /files?path=/a', 'GET /agentpod/usage'])
      await assert.rejects(ask(call), (error) => isAgentPodError(error, 'unavailable'), call)
    await assert.rejects(start({ cmd: 'true' }), (error) => isAgentPodError(error, 'unavailable'))
  })

  test('envd: the end of the sandbox cuts the stream', async () => {
    const running = start({ cmd: 'sleep', args: ['600'] })
    await settled()
    inside.end()
    await assert.rejects(running)
  })

  test('envd: an AgentPodError keeps its code, and any other error is hidden from the client', async () => {
    const fail = (error: Error): void => {
      envd = new EnvdServer(guestWith({ stats: () => Promise.reject(error) }), ended.signal)
    }
    for (const [code, expected] of [
      ['policy_denied', [403, 'permission_denied']],
      ['conflict', [400, 'failed_precondition']],
      ['internal', [500, 'internal']],
      ['resource_exhausted', [429, 'resource_exhausted']],
    ] as const) {
      fail(new AgentPodError({ code, reason: 'x', message: 'no' }))
      assert.deepEqual(codeOf(await ask('GET /agentpod/usage')), expected)
    }
    fail(new AgentPodError({ code: 'resource_exhausted', reason: 'disk.full', message: 'no' }))
    assert.deepEqual(codeOf(await ask('GET /agentpod/usage')), [507, 'resource_exhausted'])
    fail(new TypeError('a bug'))
    await assert.rejects(ask('GET /agentpod/usage'), TypeError)
  })

  test('envd: health and usage come from the guest', async () => {
    assert.equal((await ask('GET /health')).status, 204)
    assert.equal((json(await ask('GET /agentpod/usage')) as { pids: number }).pids, 1)
  })
})
