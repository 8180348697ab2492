// Pause, stop, snapshots, forks and archives over a real listener and a fake provider.

import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { after, before, beforeEach, describe, test } from 'node:test'
import type { SandboxId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import { Front } from '../support/front.ts'
import { errorOf, type TcpAnswer, tcpRequest } from '../support/tcp.ts'
import { until } from '../support/world.ts'

type Json = Record<string, unknown>

let front: Front
let tmp = ''
let mine = ''
let theirs = ''
let admin = ''
before(async () => {
  tmp = mkdtempSync(join(tmpdir(), 'agentpod-archives-'))
  front = await Front.open({ rate: { perSecond: 1e6, burst: 1e6 }, living: 12, tmpDir: tmp })
  mine = front.key()
  theirs = front.key()
  admin = front.key('admin')
})
after(async () => {
  await front[Symbol.asyncDispose]()
  rmSync(tmp, { recursive: true })
})
beforeEach(async () => {
  front.provider.heal()
  await Promise.all(
    front.engine.sandboxes
      .list({ labels: {}, all: false }, LOCAL)
      .map(({ id }) => front.engine.sandboxes.destroy(id, LOCAL)),
  )
  for (const { id } of front.engine.snapshots.list(LOCAL)) await front.engine.snapshots.remove(id, LOCAL)
})

async function ask(line: string, body?: unknown, key = mine): Promise<TcpAnswer & { json: Json }> {
  const [method = '', path = ''] = line.split(' ')
  const answer = await tcpRequest({
    port: front.port,
    method,
    path,
    headers: { 'x-api-key': key },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { ...answer, json: answer.text === '' ? {} : (JSON.parse(answer.text) as Json) }
}

async function create(body: unknown = {}, key = mine): Promise<Json & { id: SandboxId }> {
  const { status, json } = await ask('POST /v1/sandboxes', body, key)
  assert.equal(status, 201, JSON.stringify(json))
  return json as Json & { id: SandboxId }
}

const write = (id: SandboxId, path: string, text: string): unknown =>
  front.provider.inside(id).files.set(path, Buffer.from(text))
const read = (id: SandboxId, path: string): string | undefined =>
  front.provider.inside(id).files.get(path)?.toString()
const stateOf = async (id: string): Promise<unknown> => (await ask(`GET /v1/sandboxes/${id}`)).json['state']
const actions = (): string[] => front.audit.list({ after: 0, limit: 1000 }).map(({ action }) => action)

describe('a sandbox', () => {
  test('a sandbox shows how it ends and what it was created from', async () => {
    const plain = await create({ name: 'plain' })
    assert.deepEqual(plain['lifetime'], {
      ttlMs: 3_600_000,
      idleMs: 0,
      whenOver: 'destroy',
      autoResume: true,
    })
    assert.deepEqual([plain['snapshotId'], plain['forkedFrom']], [null, null])
    const limits = plain['limits'] as Json
    assert.deepEqual(limits['disk'], { level: 'enforced' })
    const made = await create({
      lifetime: { whenOver: 'pause', autoResume: false },
      resources: { diskMib: 64 },
    })
    assert.equal((made['lifetime'] as Json)['whenOver'], 'pause')
    assert.equal((made['lifetime'] as Json)['autoResume'], false)
    assert.equal((made['resources'] as Json)['diskMib'], 64)
    const wrong = await ask('POST /v1/sandboxes', { lifetime: { whenOver: 'sleep' } })
    assert.equal(wrong.status, 400)
  })

  test('a sandbox is paused and resumed, stopped and started, again and again', async () => {
    const { id } = await create({ name: 'box' })
    write(id, '/a', 'kept')
    for (const [verb, state] of [
      ['pause', 'paused'],
      ['resume', 'running'],
      ['stop', 'stopped'],
      ['start', 'running'],
      ['pause', 'paused'],
      ['stop', 'stopped'],
    ] as const) {
      for (let again = 0; again < 2; again++) {
        const { status, json } = await ask(`POST /v1/sandboxes/box/${verb}`)
        assert.deepEqual([status, json['state']], [200, state], verb)
      }
    }
    assert.equal(read(id, '/a'), 'kept')
    for (const verb of ['pause', 'resume', 'stop', 'start'])
      assert.ok(actions().includes(`sandbox.${verb}`), verb)
  })

  test('a sandbox gets a new time to live when it is resumed', async () => {
    const { id } = await create({ lifetime: { ttlMs: 60_000 } })
    const left = (json: Json): number => Date.parse(String(json['deadlineAt'])) - front.clock.now()
    for (const [down, up] of [
      ['pause', 'resume'],
      ['stop', 'start'],
    ] as const) {
      await ask(`POST /v1/sandboxes/${id}/${down}`)
      assert.equal(left((await ask(`POST /v1/sandboxes/${id}/${up}`)).json), 60_000)
      await ask(`POST /v1/sandboxes/${id}/${down}`)
      assert.equal(left((await ask(`POST /v1/sandboxes/${id}/${up}`, { ttlMs: 5000 })).json), 5000)
      await ask(`POST /v1/sandboxes/${id}/${down}`)
      for (const ttlMs of [0, -1, 0.5, 1e99, '5']) {
        const { status } = await ask(`POST /v1/sandboxes/${id}/${up}`, { ttlMs })
        assert.equal(status, 400, `${up} ${ttlMs}`)
      }
      await ask(`POST /v1/sandboxes/${id}/${up}`)
    }
  })

  test('a sandbox refuses verbs that its state does not allow', async () => {
    const { id } = await create()
    await ask(`POST /v1/sandboxes/${id}/pause`)
    const started = await ask(`POST /v1/sandboxes/${id}/start`)
    assert.deepEqual([started.status, errorOf(started).reason], [409, 'sandbox.state'])
    const extended = await ask(`POST /v1/sandboxes/${id}/extend`, { ttlMs: 60_000 })
    assert.deepEqual([extended.status, errorOf(extended).reason], [409, 'sandbox.state'])
    // How much it holds is known without waking it.
    const stats = await ask(`GET /v1/sandboxes/${id}/stats`)
    assert.deepEqual([stats.status, stats.json['processes']], [200, 0])
    assert.equal((await ask(`GET /v1/sandboxes/${id}`)).json['state'], 'paused')
    await ask(`DELETE /v1/sandboxes/${id}`)
    for (const verb of ['pause', 'resume', 'stop', 'start', 'fork', 'snapshots']) {
      const gone = await ask(`POST /v1/sandboxes/${id}/${verb}`)
      assert.deepEqual([gone.status, errorOf(gone).reason], [404, 'sandbox.ended'], verb)
    }
  })

  test('a sandbox of another owner is not found', async () => {
    const { id } = await create()
    for (const verb of ['pause', 'resume', 'stop', 'start', 'fork', 'snapshots']) {
      const answer = await ask(`POST /v1/sandboxes/${id}/${verb}`, {}, theirs)
      assert.deepEqual([answer.status, errorOf(answer).reason], [404, 'sandbox.unknown'], verb)
    }
    assert.equal(await stateOf(id), 'running')
  })

  test('a request with an unknown setting is refused', async () => {
    const { id } = await create()
    for (const [verb, body] of [
      ['resume', { ttl: 1 }],
      ['start', { ttl: 1 }],
      ['fork', { cuont: 1 }],
      ['snapshots', { nmae: 'x' }],
    ] as const) {
      const answer = await ask(`POST /v1/sandboxes/${id}/${verb}`, body)
      assert.equal(errorOf(answer).reason, 'request.unknown_key', verb)
    }
  })
})

describe('a snapshot', () => {
  test('what changed since a snapshot is not known where the provider cannot tell', async () => {
    await create({ name: 'source' })
    await ask('POST /v1/sandboxes/source/snapshots', { name: 'first' })
    await create({ snapshot: 'first', name: 'copy' })
    const answer = await ask('GET /v1/sandboxes/copy/changes?path=/home/user/x')
    assert.deepEqual([answer.status, answer.json], [200, { snapshot: null, paths: null }])
    for (const path of ['', 'home', '/', '/a/', '/a%0Ab'])
      assert.equal((await ask(`GET /v1/sandboxes/copy/changes?path=${path}`)).status, 400, path)
    assert.equal((await ask('GET /v1/sandboxes/copy/changes')).status, 400)
    assert.equal((await ask('GET /v1/sandboxes/copy/changes?path=/home', undefined, theirs)).status, 404)
  })

  test('a snapshot is taken, listed, used and removed', async () => {
    const { id } = await create({ name: 'source', environment: { variables: { A: '1' } } })
    write(id, '/a', 'one')
    const taken = await ask('POST /v1/sandboxes/source/snapshots', { name: 'first', labels: { k: 'v' } })
    assert.equal(taken.status, 201)
    const snapshot = taken.json
    assert.match(String(snapshot['id']), /^snap[a-z0-9]{16}$/)
    assert.deepEqual(
      [snapshot['name'], snapshot['sandboxId'], snapshot['parentId'], snapshot['state']],
      ['first', id, null, 'ready'],
    )
    assert.equal(snapshot['sizeBytes'], 3)
    write(id, '/a', 'two')
    const second = (await ask('POST /v1/sandboxes/source/snapshots')).json
    assert.equal(second['parentId'], snapshot['id'])
    assert.equal((await ask('GET /v1/sandboxes/source')).json['snapshotId'], second['id'])
    assert.deepEqual((await ask('GET /v1/snapshots/first')).json, snapshot)
    assert.deepEqual((await ask(`GET /v1/snapshots/${snapshot['id']}`)).json, snapshot)

    const copy = await create({ snapshot: 'first', name: 'copy' })
    assert.equal(read(copy.id, '/a'), 'one')
    assert.equal(copy['snapshotId'], snapshot['id'])
    const removed = await ask('DELETE /v1/snapshots/first')
    assert.deepEqual([removed.status, removed.json['id']], [200, snapshot['id']])
    assert.equal(read(copy.id, '/a'), 'one')
    const gone = await ask('DELETE /v1/snapshots/first')
    assert.deepEqual([gone.status, errorOf(gone).reason], [404, 'snapshot.unknown'])
    const none = await ask('POST /v1/sandboxes', { snapshot: 'first' })
    assert.deepEqual([none.status, errorOf(none).reason], [404, 'snapshot.unknown'])
    for (const action of ['snapshot.create', 'snapshot.destroy']) assert.ok(actions().includes(action))
  })

  test('a snapshot has a unique name', async () => {
    const { id } = await create()
    assert.equal((await ask(`POST /v1/sandboxes/${id}/snapshots`, { name: 'one' })).status, 201)
    const again = await ask(`POST /v1/sandboxes/${id}/snapshots`, { name: 'one' })
    assert.deepEqual([again.status, errorOf(again).reason], [409, 'snapshot.name_taken'])
    const wrong = await ask(`POST /v1/sandboxes/${id}/snapshots`, { name: '../x' })
    assert.equal(errorOf(wrong).reason, 'name.malformed')
    assert.equal(front.provider.kept.length, 1)
  })

  test('a snapshot of another owner is not found, and an admin may use it', async () => {
    const { id } = await create()
    const { json } = await ask(`POST /v1/sandboxes/${id}/snapshots`, { name: 'secret' })
    for (const ref of ['secret', json['id']]) {
      for (const line of [
        `GET /v1/snapshots/${ref}`,
        `DELETE /v1/snapshots/${ref}`,
        `GET /v1/snapshots/${ref}/archive`,
      ])
        assert.equal((await ask(line, undefined, theirs)).status, 404, line)
      assert.equal((await ask('POST /v1/sandboxes', { snapshot: ref }, theirs)).status, 404)
    }
    assert.deepEqual((await ask('GET /v1/snapshots', undefined, theirs)).json, [])
    assert.deepEqual((await ask('GET /v1/snapshots', undefined, admin)).json, [json])
    await create({ snapshot: json['id'] }, admin)
  })

  test('a snapshot of a paused or stopped sandbox leaves the state as it was', async () => {
    const { id } = await create()
    write(id, '/a', 'x')
    for (const verb of ['pause', 'stop']) {
      await ask(`POST /v1/sandboxes/${id}/${verb}`)
      assert.equal((await ask(`POST /v1/sandboxes/${id}/snapshots`)).status, 201)
    }
    assert.equal(await stateOf(id), 'stopped')
  })

  test('a snapshot that fails leaves nothing', async () => {
    const { id } = await create()
    front.provider.fail('snapshot', { times: 1 })
    assert.equal((await ask(`POST /v1/sandboxes/${id}/snapshots`, { name: 'x' })).status, 503)
    assert.deepEqual((await ask('GET /v1/snapshots')).json, [])
    assert.equal((await ask(`POST /v1/sandboxes/${id}/snapshots`, { name: 'x' })).status, 201)
  })
})

describe('the list of snapshots', () => {
  const names = ({ text }: TcpAnswer): unknown[] => (JSON.parse(text) as Json[]).map(({ name }) => name)

  test('the list of snapshots is filtered, and comes in pages', async () => {
    const { id } = await create({ name: 'one' })
    const other = await create({ name: 'two' })
    for (let i = 0; i < 5; i++) {
      const source = i === 4 ? other.id : id
      await ask(`POST /v1/sandboxes/${source}/snapshots`, { name: `s${i}`, labels: { n: String(i % 2) } })
      if (i === 2) await front.clock.advance(1)
    }
    const whole = names(await ask('GET /v1/snapshots'))
    assert.deepEqual(new Set(whole), new Set(['s0', 's1', 's2', 's3', 's4']))
    assert.deepEqual(names(await ask('GET /v1/snapshots?name=s3')), ['s3'])
    assert.deepEqual(new Set(names(await ask('GET /v1/snapshots?label=n%3D1'))), new Set(['s1', 's3']))
    assert.deepEqual(names(await ask('GET /v1/snapshots?sandbox=two')), ['s4'])
    await ask(`DELETE /v1/sandboxes/${other.id}`)
    assert.deepEqual(names(await ask(`GET /v1/snapshots?sandbox=${other.id}`)), ['s4'])
    assert.deepEqual(names(await ask('GET /v1/snapshots?sandbox=never0000000')), [])
    for (const limit of [1, 2, 5]) {
      const seen: unknown[] = []
      let next: string | undefined
      do {
        const page = await ask(`GET /v1/snapshots?limit=${limit}${next ? `&after=${next}` : ''}`)
        seen.push(...names(page))
        next = page.headers['agentpod-next']
      } while (next !== undefined)
      assert.deepEqual(seen, whole)
    }
  })

  test('a wrong query of the list of snapshots is refused by name', async () => {
    for (const [query, reason] of [
      ['?limit=0', 'request.malformed'],
      ['?after=x', 'page.after'],
      ['?after=1-abcd', 'page.after'],
      ['?label=x', 'request.malformed'],
      ['?state=ready', 'request.unknown_key'],
      ['?name=a&name=b', 'query.repeated'],
    ] as const)
      assert.equal(errorOf(await ask(`GET /v1/snapshots${query}`)).reason, reason, query)
  })
})

describe('forks', () => {
  test('forks are copies of one moment, each with a number behind its name', async () => {
    const { id } = await create({ name: 'origin' })
    write(id, '/a', 'x')
    const { status, json } = await ask('POST /v1/sandboxes/origin/fork', {
      count: 3,
      name: 'copy',
      labels: { team: 'web' },
      lifetime: { ttlMs: 5000 },
      resources: { memoryMib: 64 },
    })
    assert.equal(status, 201)
    const made = (json as unknown as { sandbox: Json & { id: SandboxId } }[]).map(({ sandbox }) => sandbox)
    assert.deepEqual(made.map(({ name }) => name).sort(), ['copy-1', 'copy-2', 'copy-3'])
    for (const sandbox of made) {
      assert.equal(sandbox['forkedFrom'], id)
      assert.deepEqual(sandbox['labels'], { team: 'web' })
      assert.equal((sandbox['resources'] as Json)['memoryMib'], 64)
      assert.equal(read(sandbox.id, '/a'), 'x')
    }
    assert.deepEqual((await ask('GET /v1/snapshots')).json, [], 'what they were made from is gone')
    assert.ok(actions().includes('sandbox.fork'))
    const [one] = (await ask('POST /v1/sandboxes/origin/fork')).json as unknown as { sandbox: Json }[]
    assert.equal(one?.sandbox['name'], null)
  })

  test('forks succeed or fail one by one', async () => {
    const { id } = await create()
    for (let i = 0; i < 9; i++) await create()
    const { status, json } = await ask(`POST /v1/sandboxes/${id}/fork`, { count: 4 })
    assert.equal(status, 201)
    const forked = json as unknown as { sandbox?: Json; error?: Json }[]
    assert.equal(forked.filter(({ sandbox }) => sandbox).length, 2)
    const errors = forked.flatMap(({ error }) => (error ? [error] : []))
    assert.deepEqual(new Set(errors.map(({ reason }) => reason)), new Set(['quota.living']))
    const none = await ask(`POST /v1/sandboxes/${id}/fork`, { count: 2 })
    assert.deepEqual([none.status, errorOf(none).reason], [429, 'quota.living'])
    assert.ok(Number(none.headers['retry-after']) > 0)
  })

  test('errors of forks show nothing of the server’s internals', async () => {
    const { id } = await create()
    let n = 0
    front.provider.onCreate = () => {
      if (++n === 1) throw new Error('a word of the inside')
    }
    const { status, text, json } = await ask(`POST /v1/sandboxes/${id}/fork`, { count: 2 })
    front.provider.onCreate = () => undefined
    assert.equal(status, 201)
    assert.ok(!text.includes('a word of the inside'))
    const failed = (json as unknown as { error?: Json }[]).find(({ error }) => error)
    assert.match(String(failed?.error?.['incident']), /^[a-z0-9]{12}$/)
    assert.ok(front.log.some((line) => line.includes(String(failed?.error?.['incident']))))
  })

  test('the number of forks is limited', async () => {
    const { id } = await create()
    for (const count of [0, -1, 1.5, 101, '2'])
      assert.equal((await ask(`POST /v1/sandboxes/${id}/fork`, { count })).status, 400, String(count))
    assert.equal(front.provider.existing.length, 1)
  })
})

describe('an archive', () => {
  function open(method: string, path: string, body?: Buffer, key = mine): Promise<IncomingMessage> {
    return new Promise((resolve, reject) => {
      const headers = { 'x-api-key': key }
      const outgoing = httpRequest({ port: front.port, method, path, headers, agent: false })
      outgoing.once('response', resolve)
      outgoing.once('error', reject)
      outgoing.end(body)
    })
  }
  async function bytes(response: IncomingMessage): Promise<Buffer> {
    const chunks: Buffer[] = []
    for await (const chunk of response as AsyncIterable<Buffer>) chunks.push(chunk)
    return Buffer.concat(chunks)
  }
  const exported = async (ref: string): Promise<Buffer> =>
    bytes(await open('GET', `/v1/snapshots/${ref}/archive`))
  const imported = async (archive: Buffer, query = ''): Promise<{ status: number; json: Json }> => {
    const response = await open('POST', `/v1/snapshots/archive${query}`, archive)
    return {
      status: response.statusCode ?? 0,
      json: JSON.parse((await bytes(response)).toString()) as Json,
    }
  }
  async function sample(size = 10): Promise<string> {
    const { id } = await create()
    front.provider.inside(id).files.set('/data', Buffer.alloc(size, 'x'))
    await ask(`POST /v1/sandboxes/${id}/snapshots`, { name: 'sample' })
    return 'sample'
  }
  const leftovers = (): string[] => readdirSync(tmp)

  test('an archive carries a snapshot out and back in', async () => {
    await sample(3_000_000)
    const response = await open('GET', '/v1/snapshots/sample/archive')
    assert.equal(response.headers['content-type'], 'application/octet-stream')
    assert.match(String(response.headers['content-disposition']), /filename="sample\./)
    const archive = await bytes(response)
    await ask('DELETE /v1/snapshots/sample')
    const { status, json } = await imported(archive, '?name=back')
    assert.equal(status, 201, JSON.stringify(json))
    assert.deepEqual([json['name'], json['sandboxId'], json['parentId']], ['back', null, null])
    const { id } = await create({ snapshot: 'back' })
    assert.equal(read(id, '/data')?.length, 3_000_000)
    assert.ok(actions().includes('snapshot.import'))
    await until('nothing is left of it', () => leftovers().length === 0)
  })

  test('a HEAD request for an archive packs nothing', async () => {
    await sample()
    const { statusCode } = await open('HEAD', '/v1/snapshots/sample/archive')
    assert.equal(statusCode, 200)
    assert.deepEqual(leftovers(), [])
  })

  test('a damaged, short, long or missing archive is refused, and nothing is kept', async () => {
    await sample()
    const whole = await exported('sample')
    const damaged = Buffer.from(whole)
    damaged[whole.length - 1] = (whole.at(-1) ?? 0) ^ 1
    const before = front.provider.kept.length
    for (const [archive, reason] of [
      [Buffer.from('hello'), 'snapshot.archive'],
      [Buffer.alloc(0), 'snapshot.archive'],
      [Buffer.alloc(8_000_000, 'x'), 'snapshot.archive'],
      [whole.subarray(0, whole.length - 1), 'snapshot.damaged'],
      [whole.subarray(0, 120), 'snapshot.damaged'],
      [damaged, 'snapshot.damaged'],
      [Buffer.concat([whole, Buffer.from('x')]), 'snapshot.damaged'],
    ] as const) {
      const { json } = await imported(archive)
      assert.equal((json['error'] as Json)['reason'], reason, archive.toString('latin1', 0, 40))
    }
    assert.equal(front.provider.kept.length, before)
    await until('nothing is left', () => leftovers().length === 0)
  })

  test('an archive that fails on its way is cut, so that no client takes it for whole', async () => {
    await sample()
    const { snapshots } = front.engine
    const original = snapshots.export.bind(snapshots)
    for (const pieces of [0, 1, 3]) {
      snapshots.export = async () =>
        Readable.from(
          (async function* () {
            for (let i = 0; i < pieces; i++) yield Buffer.alloc(100_000, 'x')
            throw new Error('a disk that fails')
          })(),
        )
      try {
        await assert.rejects(exported('sample'), `after ${pieces} pieces`)
      } finally {
        snapshots.export = original
      }
    }
  })

  test('an archive that no client reads is cut', async () => {
    await sample(20_000_000)
    const response = await open('GET', '/v1/snapshots/sample/archive')
    response.pause()
    await new Promise((resolve) => setTimeout(resolve, 200))
    await front.clock.advance(11 * 60_000)
    await assert.rejects(bytes(response))
    await until('nothing is left', () => leftovers().length === 0)
  })

  test('an archive whose reader hangs up leaves nothing', async () => {
    await sample(20_000_000)
    for (let again = 0; again < 6; again++) {
      const response = await open('GET', '/v1/snapshots/sample/archive')
      response.once('error', () => undefined)
      response.destroy()
      await until('nothing is left', () => leftovers().length === 0)
    }
  })

  test('an archive whose sender hangs up is not kept', async () => {
    await sample()
    const whole = await exported('sample')
    const before = front.provider.kept.length
    for (let again = 0; again < 6; again++) {
      await new Promise<void>((resolve) => {
        const outgoing = httpRequest({
          port: front.port,
          method: 'POST',
          path: '/v1/snapshots/archive',
          headers: { 'x-api-key': mine, 'content-length': String(whole.length) },
          agent: false,
        })
        outgoing.once('error', () => resolve())
        outgoing.write(whole.subarray(0, whole.length - 3), () => setTimeout(() => outgoing.destroy(), 20))
      })
    }
    await until('nothing is left', () => leftovers().length === 0)
    assert.equal(front.provider.kept.length, before)
    assert.equal((await imported(whole, '?name=whole')).status, 201)
  })

  test('an upload of an archive that stalls is cut', async () => {
    const outgoing = httpRequest({
      port: front.port,
      method: 'POST',
      path: '/v1/snapshots/archive',
      headers: { 'x-api-key': mine, 'content-length': '1000' },
      agent: false,
    })
    const answered = new Promise<IncomingMessage>((resolve, reject) => {
      outgoing.once('response', resolve)
      outgoing.once('error', reject)
    })
    outgoing.write('agentpod-snap')
    await new Promise((resolve) => setTimeout(resolve, 100))
    await front.clock.advance(61_000)
    assert.equal((await answered).statusCode, 408)
    outgoing.destroy()
  })

  test('the number of archives at a time is limited', async () => {
    await sample(20_000_000)
    const held = await Promise.all(
      Array.from({ length: 4 }, () => open('GET', '/v1/snapshots/sample/archive')),
    )
    const refused = await open('GET', '/v1/snapshots/sample/archive')
    assert.equal(refused.statusCode, 429)
    for (const response of held) {
      response.once('error', () => undefined)
      response.destroy()
    }
    await until('there is room again', async () => {
      const response = await open('GET', '/v1/snapshots/sample/archive')
      response.once('error', () => undefined)
      response.destroy()
      return response.statusCode === 200
    })
  })
})
