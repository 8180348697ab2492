/**
 * The same requests of envd's protocol, once as bytes to a real podd and once through the translator over the
 * typed podd, get the same answers.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { Guest, GuestRequest, GuestResponse } from '../../src/core/guest.ts'
import { EnvdServer } from '../../src/guest/envd/server.ts'
import { poddGuest } from '../../src/guest/podd/client.ts'
import { socketStreams } from '../../src/guest/podd/streams.ts'
import { encodeFrame, FrameReader } from '../../src/util/stream/connect-frame.ts'
import { tarOf } from '../support/tar-bytes.ts'
import { World } from '../support/world.ts'

const world = new World()
const pod = world.client()
const ended = new AbortController()
let guest: Guest
let envd: EnvdServer

before(async () => {
  const sandbox = await pod.create({})
  const marker = sandbox.exec('sleep', { args: ['600'] })
  // It ends with its sandbox.
  marker.wait().catch(() => undefined)
  await marker.pid
  // The sockets of blank shells lie beside it.
  for (const name of readdirSync(join(world.home, 'run', 's'))) {
    const path = join(world.home, 'run', 's', name)
    if (!name.endsWith('.sock') || !existsSync(path)) continue
    const one = poddGuest(socketStreams({ api: path }))
    const { processes } = await one.stats({ timeoutMs: 1000 }).catch(() => ({ processes: 0 }))
    if (processes > 0) guest = one
    else one.close()
  }
  assert.ok(guest, 'its socket')
  const { processes, files, archive, lease } = guest
  const typed: Guest = {
    health: (o) => guest.health(o),
    configure: (init, o) => guest.configure(init, o),
    stats: (o) => guest.stats(o),
    dial: (port, o) => guest.dial(port, o),
    close: () => undefined,
    processes,
    files,
    archive,
    lease,
  }
  envd = new EnvdServer(typed, ended.signal)
})
after(async () => {
  ended.abort()
  guest?.close()
  pod.close()
  await world[Symbol.asyncDispose]()
})

/**
 * Bytes to podd, and the translator. Both are as long as DOOR, which stands for them in a request, so that
 * frames keep their lengths.
 */
const DOORS = ['west', 'east'] as const
type Door = (typeof DOORS)[number]
type Ask = (request: Asked) => Promise<Answer>

interface Asked {
  /** `POST /files?path=/tmp/DOOR/a`; DOOR is the name of the door. */
  readonly call: string
  readonly headers?: Record<string, string>
  readonly body?: Buffer | Readable
}

interface Answer {
  readonly status: number
  readonly headers: GuestResponse['headers']
  readonly body: Buffer
}

const signal = (): AbortSignal => AbortSignal.timeout(20_000)

async function send(door: Door, { call, headers = {}, body }: Asked): Promise<GuestResponse> {
  const [method = '', path = ''] = call.replaceAll('DOOR', door).split(' ')
  const length = Buffer.isBuffer(body) ? { 'content-length': String(body.length) } : {}
  const stream = Buffer.isBuffer(body) ? Readable.from([body], { objectMode: false }) : body
  const request: GuestRequest = { method, path, headers: { ...length, ...headers }, body: stream }
  const o = { signal: signal() }
  const answer = door === 'east' ? envd.handle(request, o) : guest.passThrough?.(request, o)
  return answer ?? assert.fail('podd passes bytes through')
}

function asker(door: Door): Ask {
  return async (asked) => {
    const body = Buffer.isBuffer(asked.body)
      ? { body: Buffer.from(asked.body.toString('latin1').replaceAll('DOOR', door), 'latin1') }
      : {}
    const { status, headers, body: answer } = await send(door, { ...asked, ...body })
    return { status, headers, body: Buffer.concat(await answer.toArray()) }
  }
}

const UNARY = { 'content-type': 'application/json' }
const STREAM = { 'content-type': 'application/connect+json' }
const unary = (method: string, message: unknown, headers = {}): Asked => ({
  call: `POST /${method}`,
  headers: { ...UNARY, ...headers },
  body: Buffer.from(typeof message === 'string' ? message : JSON.stringify(message)),
})
const stream = (method: string, message: unknown, headers = {}): Asked => ({
  call: `POST /${method}`,
  headers: { ...STREAM, ...headers },
  body: encodeFrame(message),
})
const sh = (run: string, more: object = {}, headers = {}): Asked =>
  stream('process.Process/Start', { process: { cmd: 'sh', args: ['-c', run] }, ...more }, headers)
const file = (path: string, content: string | Buffer, headers = {}): Asked => ({
  call: `POST /files?path=${encodeURIComponent(path)}`,
  headers: { 'content-type': 'application/octet-stream', ...headers },
  body: Buffer.from(content),
})
const get = (call: string, headers = {}): Asked => ({ call: `GET ${call}`, headers })

/** What must be the same: numbers of processes and times are not. */
function plain(door: Door, { status, headers, body }: Answer): unknown {
  const kept = ['content-type', 'content-disposition', 'content-encoding', 'content-length', 'vary']
  const type = String(headers['content-type'])
  const text = (value: unknown): unknown => JSON.parse(textOf(value))
  const textOf = (value: unknown): string =>
    JSON.stringify(value)
      .replaceAll(door, 'DOOR')
      .replaceAll(/"pid":\d+/g, '"pid":7')
      .replaceAll(/process \d+/g, 'process 7')
      .replaceAll(/watcher \\"\w+/g, 'watcher 7')
      .replaceAll(/"(modifiedTime|startedAt|endedAt|watcherId)":"[^"]+"/g, '"$1":"…"')
  const isFrames = type === 'application/connect+json'
  const known = kept.filter((name) => name !== 'content-length' || type === 'application/octet-stream')
  return {
    status,
    headers: text(Object.fromEntries(known.map((name) => [name, headers[name]]))),
    said: isFrames
      ? framesOf(body).map(text)
      : type === 'application/json'
        ? text(JSON.parse(body.toString() || 'null'))
        : body.toString('latin1').replaceAll(door, 'DOOR'),
  }
}

/** Output joined, since where it is cut is chance. */
function framesOf(body: Buffer): unknown[] {
  const joined: Record<string, string> = {}
  const rest: unknown[] = []
  for (const { message } of new FrameReader().push(body)) {
    const data = (message as { event?: { data?: Record<string, string> } }).event?.data
    for (const [kind, text] of Object.entries(data ?? {}))
      joined[kind] = (joined[kind] ?? '') + Buffer.from(text, 'base64').toString('latin1')
    if (!data) rest.push(message)
  }
  return [joined, ...rest]
}

async function same(work: (ask: Ask, door: Door) => Promise<readonly Answer[]>): Promise<Answer[]> {
  const [bytes, typed] = await Promise.all(
    DOORS.map(async (door) => (await work(asker(door), door)).map((one) => [plain(door, one), one] as const)),
  )
  assert.deepEqual(
    typed?.map(([one]) => one),
    bytes?.map(([one]) => one),
  )
  return bytes?.map(([, answer]) => answer) ?? []
}

/** One after the other. */
async function all(ask: Ask, asked: readonly Asked[]): Promise<Answer[]> {
  const answers: Answer[] = []
  for (const one of asked) answers.push(await ask(one))
  return answers
}

describe('processes', () => {
  const RUNS: Readonly<Record<string, Asked>> = {
    'give output and a code': sh('echo out; echo err >&2; exit 3'),
    'that succeed': sh('true'),
    'killed by a signal': sh('kill -TERM $$'),
    'killed by a signal without an echo of a core': sh('kill -SEGV $$'),
    'with variables, a directory and a user': stream(
      'process.Process/Start',
      { process: { cmd: 'sh', args: ['-c', 'echo $A; pwd; id -un'], envs: { A: 'ü' }, cwd: '/usr' } },
      { authorization: `Basic ${Buffer.from('root:').toString('base64')}` },
    ),
    'in a terminal': sh('stty size', { pty: { size: { cols: 33, rows: 7 } } }),
    'that are not there': stream('process.Process/Start', { process: { cmd: 'no-such-program' } }),
    'in a directory that is not there': stream('process.Process/Start', {
      process: { cmd: 'true', cwd: '/none' },
    }),
    'of a user who is not there': sh('true', {}, { authorization: 'Basic bm9ib2R5eDo=' }),
    'of no Basic user': sh('true', {}, { authorization: 'Bearer x' }),
    'that take too long': sh('sleep 600', {}, { 'connect-timeout-ms': '300' }),
    'without a process': stream('process.Process/Start', { tag: 'x' }),
    'with a long tag': sh('true', { tag: 'x'.repeat(257) }),
    'with much output': sh('head -c 3000000 /dev/zero | tr "\\0" x'),
  }
  for (const [name, run] of Object.entries(RUNS))
    test(`PROV-8 podd and the translation answer the same for commands ${name}`, async () => {
      const [answer] = await same(async (ask) => [await ask(run)])
      assert.ok(answer && answer.body.length > 0)
    })

  test('PROV-8 processes are found by tag, listed, written to, signalled, and followed again', async () => {
    const answers = await same(async (ask, door) => {
      const process = { tag: `cat-${door}` }
      const begun = await send(door, sh('echo ready; cat; echo done', process))
      const first = await begun.body[Symbol.asyncIterator]().next()
      assert.ok(first.value)
      begun.body.destroy()
      const input = (text: string) => ({ stdin: Buffer.from(text).toString('base64') })
      const ours = (answer: Answer): Answer => {
        const list = JSON.parse(answer.body.toString()) as { processes: { tag?: string }[] }
        const processes = list.processes.filter(({ tag }) => tag === process.tag)
        return { ...answer, body: Buffer.from(JSON.stringify({ processes })) }
      }
      return [
        await ask(sh('true', process)),
        ours(await ask(unary('process.Process/List', {}))),
        ...(await all(ask, [
          unary('process.Process/SendInput', { process, input: input('one\n') }),
          unary('process.Process/SendInput', { process, input: { pty: 'eA' } }),
          unary('process.Process/SendInput', { process, input: {} }),
          unary('process.Process/Update', { process, pty: { size: { cols: 1, rows: 1 } } }),
          unary('process.Process/Update', { process }),
          { call: 'POST /agentpod/input?tag=cat-DOOR&offset=2', body: Buffer.from('e\ntwo\n') },
          { call: 'POST /agentpod/input?tag=cat-DOOR&offset=99', body: Buffer.from('x') },
          {
            call: 'POST /process.Process/StreamInput',
            headers: STREAM,
            body: Buffer.concat([
              encodeFrame({ start: { process } }),
              encodeFrame({ data: { input: input('three\n') } }),
            ]),
          },
          unary('process.Process/CloseStdin', { process }),
          stream('agentpod/attach', { process, offset: '0' }),
          stream('agentpod/attach', { process, offset: 10 }),
          stream('agentpod/attach', { process, stdout: '4' }),
          stream('agentpod/attach', { process, offset: '99999' }),
          stream('process.Process/Connect', { process }),
          unary('process.Process/SendSignal', { process, signal: 'SIGNAL_SIGTERM' }),
          unary('process.Process/SendSignal', { process: { tag: 'none' }, signal: 15 }),
          get('/agentpod/processes?tag=cat-DOOR'),
          get('/agentpod/processes?tag=none'),
        ])),
      ]
    })
    assert.match(answers.at(-2)?.body.toString() ?? '', /"stdinBytes":"14"/)
  })

  test('PROV-8 processes are signalled by name and by number', async () => {
    await same(async (_, door) => {
      const ends: Answer[] = []
      for (const signal of ['SIGNAL_SIGKILL', 15]) {
        const process = { tag: `sleep-${signal}-${door}` }
        const { status, headers, body } = await send(door, sh('exec sleep 600', process))
        const chunks: Buffer[] = []
        for await (const chunk of body as AsyncIterable<Buffer>) {
          if (chunks.push(chunk) > 1) continue
          const sent = await asker(door)(unary('process.Process/SendSignal', { process, signal }))
          assert.equal(sent.status, 200, sent.body.toString())
        }
        ends.push({ status, headers, body: Buffer.concat(chunks) })
      }
      return ends
    })
  })
})

describe('files', () => {
  test('PROV-8 files are written, described, listed, moved, read and removed', async () => {
    const form = [
      '--b\r\nContent-Disposition: form-data; name="file"; filename="/tmp/DOOR/one"\r\n\r\none\r\n',
      '--b\r\nContent-Disposition: form-data; name="other"\r\n\r\nx\r\n',
      '--b\r\nContent-Disposition: form-data; name="file"; filename="/tmp/DOOR/t\\"wo"\r\n',
      'Content-Type: text/plain\r\n\r\n--\r\n-b\r\n--b--\r\n',
    ].join('')
    const forms = { 'content-type': 'multipart/form-data; boundary=b' }
    await same((ask) =>
      all(ask, [
        file('/tmp/DOOR/a b', 'content', { 'x-metadata-kind': 'v' }),
        file('/tmp/DOOR/zipped', gzipSync('zipped'), { 'content-encoding': 'gzip' }),
        file('/tmp/DOOR/not-zipped', 'x', { 'content-encoding': 'gzip' }),
        file('/tmp/DOOR/other', 'x', { 'content-encoding': 'br' }),
        file('/etc/none', 'x'),
        file('/tmp/DOOR/mine', 'x', { authorization: 'Basic cm9vdDo=' }),
        { call: 'POST /files', headers: forms, body: Buffer.from(form) },
        { call: 'POST /files?path=/tmp/DOOR/two', headers: forms, body: Buffer.from(form) },
        { call: 'POST /files?path=/tmp/DOOR/x', body: Buffer.from('x') },
        {
          call: 'POST /files',
          headers: { 'content-type': 'application/octet-stream' },
          body: Buffer.from('x'),
        },
        unary('filesystem.Filesystem/Stat', { path: '/tmp/DOOR/a b' }),
        unary('filesystem.Filesystem/Stat', { path: '/tmp/DOOR/none' }),
        unary('filesystem.Filesystem/Stat', { path: '/tmp/DOOR/mine' }),
        unary('filesystem.Filesystem/Stat', {}),
        unary('filesystem.Filesystem/MakeDir', { path: '/tmp/DOOR/dir/deep' }),
        unary('filesystem.Filesystem/MakeDir', { path: '/tmp/DOOR/dir/deep' }),
        unary('filesystem.Filesystem/ListDir', { path: '/tmp/DOOR' }),
        unary('filesystem.Filesystem/ListDir', { path: '/tmp/DOOR', depth: 2 }),
        unary('filesystem.Filesystem/ListDir', { path: '/tmp/DOOR/dir/deep' }),
        unary('filesystem.Filesystem/ListDir', { path: '/tmp/DOOR/a b' }),
        unary('filesystem.Filesystem/Move', { source: '/tmp/DOOR/a b', destination: '/tmp/DOOR/ü (1)' }),
        unary('filesystem.Filesystem/Move', { source: '/tmp/DOOR/none', destination: '/tmp/DOOR/b' }),
        get(`/files?path=${encodeURIComponent('/tmp/DOOR/ü (1)')}`),
        get('/files?path=/tmp/DOOR/zipped'),
        get('/files?path=/tmp/DOOR/none'),
        get('/files?path=/tmp/DOOR'),
        get('/files'),
        get('/files?path=/root/x&username=user'),
        get('/files?path=/etc/hostname&username=nobodyx'),
        unary('filesystem.Filesystem/Remove', { path: '/tmp/DOOR/one' }),
        unary('filesystem.Filesystem/Remove', { path: '/tmp/DOOR/one' }),
        unary('filesystem.Filesystem/Remove', { path: '/' }),
      ]),
    )
  })

  test('PROV-8 files are sent compressed to a client that accepts only that', async () => {
    for (const door of DOORS) {
      const ask = asker(door)
      await ask(file('/tmp/DOOR/long', 'x'.repeat(100_000)))
      const { headers, body } = await ask(get('/files?path=/tmp/DOOR/long', { 'accept-encoding': 'gzip' }))
      assert.equal(headers['content-encoding'], 'gzip')
      assert.equal(gunzipSync(body).toString(), 'x'.repeat(100_000))
    }
  })

  test('PROV-8 directories are packed and unpacked', async () => {
    const archive = tarOf([
      { name: 'in' },
      { name: 'dir', type: 'directory' },
      { name: 'dir/f', content: 'f' },
    ])
    const tar = '/agentpod/tar?path=/tmp/tar-DOOR'
    await same((ask) =>
      all(ask, [
        { call: `POST ${tar}`, body: archive },
        { call: `POST ${tar}`, body: gzipSync(archive), headers: { 'content-encoding': 'gzip' } },
        { call: `POST ${tar}`, body: archive, headers: { 'content-encoding': 'br' } },
        { call: `POST ${tar}`, body: Buffer.from('no archive, only words '.repeat(40)) },
        unary('filesystem.Filesystem/ListDir', { path: '/tmp/tar-DOOR', depth: 9 }),
        get('/agentpod/tar?path=/none'),
      ]),
    )
    for (const door of DOORS) {
      const { status, headers, body } = await asker(door)(get(tar))
      assert.deepEqual([status, headers['content-type']], [200, 'application/x-tar'])
      assert.ok(body.includes('dir/f'))
    }
  })

  test('PROV-8 directories are watched, as a stream and by polling', async () => {
    await same(async (ask, door) => {
      const path = `/tmp/watch-${door}`
      const begin = [
        unary('filesystem.Filesystem/MakeDir', { path }),
        unary('filesystem.Filesystem/CreateWatcher', { path, recursive: true, includeEntry: true }),
      ]
      const begun = await all(ask, begin)
      const { watcherId } = JSON.parse(begun[1]?.body.toString() ?? '{}')
      const watching = ask(
        stream('filesystem.Filesystem/WatchDir', { path }, { 'connect-timeout-ms': '1500' }),
      )
      await pause(500)
      const work: Answer[] = []
      for (const one of [
        unary('filesystem.Filesystem/MakeDir', { path: `${path}/dir` }),
        unary('filesystem.Filesystem/Move', { source: `${path}/dir`, destination: `${path}/moved` }),
        unary('filesystem.Filesystem/Remove', { path: `${path}/moved` }),
      ]) {
        work.push(await ask(one))
        // An entry is described as it is found a moment later.
        await pause(100)
      }
      const watched = await watching
      return [
        ...begun,
        ...work,
        watched,
        ...(await all(ask, [
          unary('filesystem.Filesystem/GetWatcherEvents', { watcherId }),
          unary('filesystem.Filesystem/GetWatcherEvents', { watcherId }),
          unary('filesystem.Filesystem/RemoveWatcher', { watcherId }),
          unary('filesystem.Filesystem/RemoveWatcher', { watcherId }),
          stream('filesystem.Filesystem/WatchDir', { path: '/none' }),
          unary('filesystem.Filesystem/CreateWatcher', { path: '/none' }),
        ])),
      ]
    })
  })
})

describe('malformed requests', () => {
  const frame = encodeFrame({ process: { cmd: 'true' } })
  const start = (body: Buffer, headers = {}): Asked => ({
    call: 'POST /process.Process/Start',
    headers: { ...STREAM, ...headers },
    body,
  })
  const MALFORMED: Readonly<Record<string, Asked>> = {
    'no JSON': unary('process.Process/List', 'x'),
    'no UTF-8': { ...unary('process.Process/List', {}), body: Buffer.from([0x7b, 0xff, 0x7d]) },
    'another content type': unary('process.Process/List', {}, { 'content-type': 'application/proto' }),
    'a message too large': unary('process.Process/List', ' '.repeat(4 * 1024 * 1024 + 1)),
    'an unknown encoding': unary('process.Process/List', '{}', { 'content-encoding': 'br' }),
    'no gzip': unary('process.Process/List', '{}', { 'content-encoding': 'gzip' }),
    'a wrong type': unary('filesystem.Filesystem/Stat', { path: 7 }),
    'a depth below zero': unary('filesystem.Filesystem/ListDir', { path: '/tmp', depth: -1 }),
    'a size beyond a terminal': unary('process.Process/Update', { pty: { size: { cols: 70000 } } }),
    'no base64': unary('process.Process/SendInput', { process: { pid: 1 }, input: { stdin: '*' } }),
    'no signal': unary('process.Process/SendSignal', { process: { pid: 1 }, signal: 'SIGNAL_NONE' }),
    'a timeout that is none': unary('process.Process/List', {}, { 'connect-timeout-ms': 'x' }),
    'a stream of no frames': start(Buffer.from('hello, world')),
    'a stream of nothing': start(Buffer.alloc(0)),
    'half a frame': start(frame.subarray(0, 8)),
    'two messages': start(Buffer.concat([frame, frame])),
    'a frame too large': start(Buffer.from([0, 255, 255, 255, 255])),
    'a stream as a unary call': start(frame, UNARY),
    'data before its process': {
      call: 'POST /process.Process/StreamInput',
      headers: STREAM,
      body: encodeFrame({ data: { input: { stdin: 'eA==' } } }),
    },
    'an offset that is none': { call: 'POST /agentpod/input?tag=x&offset=-1', body: Buffer.from('x') },
    'no tag': { call: 'POST /agentpod/input?offset=0', body: Buffer.from('x') },
    'an offset that is no number': stream('agentpod/attach', { process: { pid: 1 }, offset: 'x' }),
    'half a form': {
      call: 'POST /files',
      headers: { 'content-type': 'multipart/form-data; boundary=b' },
      body: Buffer.from('--b\r\nContent-Disposition: form-data; name="file"; filename="/tmp/half"\r\n\r\nha'),
    },
    'an unknown call': get('/none'),
    'another method': get('/process.Process/List'),
    'an unknown service': unary('process.Process/Nothing', {}),
  }
  const coded = (text: string): string =>
    JSON.stringify(JSON.parse(text), (key, value: unknown) => (key === 'message' ? undefined : value))
  for (const [name, asked] of Object.entries(MALFORMED))
    test(`PROV-8 a malformed request (${name}) is refused with the same code`, async () => {
      const answers = await Promise.all(
        DOORS.map(async (door) => {
          const answer = await asker(door)(asked)
          const isFrames = answer.headers['content-type'] === 'application/connect+json'
          const said = isFrames ? JSON.stringify(framesOf(answer.body)) : answer.body.toString()
          return { status: answer.status, said: coded(said) }
        }),
      )
      assert.deepEqual(answers[1], answers[0])
      assert.match(answers[0]?.said ?? '', /"code"/)
    })
})

test('PROV-8 a guest that lacks a call and one that cannot be reached give different errors', async () => {
  assert.equal((await asker('east')(get('/envs'))).status, 404)
  assert.equal((await asker('west')(get('/envs'))).status, 200)
  const gone = new EnvdServer(poddGuest(socketStreams({ api: join(world.home, 'none.sock') })), ended.signal)
  const asked: GuestRequest = { method: 'GET', path: '/health', headers: {} }
  await assert.rejects(gone.handle(asked, { signal: signal() }), { code: 'unavailable' })
})
