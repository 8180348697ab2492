import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { FakeClock } from '../../testing/fake-clock.ts'
import { systemClock } from '../../util/clock.ts'
import { type StartedEgress, startEgress } from '../egress.ts'
import { readAll, testPolicy } from '../testing/egress-fixture.ts'
import { FakePodd } from '../testing/fake-podd.ts'
import type { LinkSpec } from './link-spec.ts'

const SECRET = 'very-secret-value'

class Server {
  readonly socket: Socket
  readonly events: Record<string, unknown>[] = []
  readonly #pending = new Map<number, (answer: Record<string, unknown>) => void>()
  #next = 1

  constructor(path: string) {
    this.socket = connect(path)
    this.socket.on('error', () => undefined)
    createInterface(this.socket).on('line', (line) => {
      const message = JSON.parse(line) as Record<string, unknown>
      if (message['event']) this.events.push(message)
      else this.#pending.get(Number(message['id']))?.(message)
    })
  }

  ask(op: string, args?: unknown): Promise<Record<string, unknown>> {
    const id = this.#next++
    return new Promise((resolve) => {
      this.#pending.set(id, resolve)
      this.socket.write(`${JSON.stringify({ id, op, args })}\n`)
    })
  }
}

describe('the control socket', () => {
  let directory: string
  let path: string
  let egress: StartedEgress
  let podd: FakePodd
  let logged: string[]
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'egress-'))
    path = join(directory, 'egress.sock')
    logged = []
    const write = (message: string, fields?: unknown): void =>
      void logged.push(JSON.stringify([message, fields]))
    const log = { info: write, warn: write, error: write }
    egress = await startEgress({ socketPath: path, log, version: 'v1', resolve: async () => [] })
    podd = new FakePodd(join(directory, 'out'))
    await podd.listen()
  })
  afterEach(async () => {
    await egress.stop()
    await egress.done
    await podd.close()
    rmSync(directory, { recursive: true, force: true })
  })
  const spec = (): LinkSpec => {
    const slot = {
      hosts: ['a.example'],
      port: 443,
      header: 'authorization',
      scheme: { kind: 'prefix', prefix: 'Bearer ' },
    } as const
    const grant = testPolicy(['a.example']).rules[0]
    return {
      sandbox: 'sb-1',
      socket: podd.path,
      policy: {
        ...testPolicy([{ host: 'a.example', paths: ['/x'], budget: { bytes: 5 } }]),
        ...(grant && { rules: [{ ...grant, within: grant }] }),
      },
      secrets: [{ name: 'k', placeholder: 'p', value: SECRET, slot }],
      authority: { cert: 'c', key: 'k' },
      intercept: 'needed',
      headers: [{ host: 'a.example', headers: { 'X-A': 'b' } }],
      cache: true,
    }
  }

  test('the control socket is only accessible to its owner', () =>
    assert.equal(statSync(path).mode & 0o777, 0o600))

  test('the control socket opens, counts and closes sandboxes', async () => {
    const server = new Server(path)
    const hello = await server.ask('hello')
    assert.deepEqual(hello['result'], { version: 'v1', pid: process.pid, links: [] })
    assert.deepEqual((await server.ask('open', spec()))['result'], {})
    assert.deepEqual((await server.ask('open', spec()))['result'], {})
    const socket = await podd.proxy()
    socket.write('CONNECT evil.test:443 HTTP/1.1\r\n\r\n')
    assert.match(await readAll(socket), /^HTTP\/1\.1 403 /)
    const counts = (await server.ask('counts', { sandbox: 'sb-1' }))['result'] as Record<string, number>
    assert.deepEqual([counts['connections'], counts['denied'], counts['allowed']], [1, 1, 0])
    await new Promise((resolve) => setTimeout(resolve, 150))
    const [event] = server.events
    const records = event?.['records'] as { host: string }[] | undefined
    assert.equal(records?.[0]?.host, 'evil.test')
    assert.deepEqual(((await server.ask('hello'))['result'] as { links: string[] }).links, ['sb-1'])
    for (let at = 0; at < 2; at++)
      assert.deepEqual((await server.ask('close', { sandbox: 'sb-1' }))['result'], {})
    assert.equal(
      ((await server.ask('counts', { sandbox: 'sb-1' }))['error'] as { code: string }).code,
      'not_found',
    )
  })

  test('the control socket refuses malformed messages and does not quote them', async () => {
    const server = new Server(path)
    const bad = [
      ['open', { ...spec(), more: SECRET }],
      ['open', { ...spec(), secrets: [{ name: 'k', value: SECRET }] }],
      ['open', { ...spec(), secrets: SECRET }],
      ['open', { ...spec(), intercept: SECRET }],
      ['open', { ...spec(), cache: SECRET }],
      ['open', { ...spec(), policy: { ...spec().policy, addresses: { allowed: [SECRET], denied: [] } } }],
      ['open', {}],
      ['close', {}],
      ['counts', { sandbox: 7 }],
      ['hello', { more: 1 }],
      [SECRET, {}],
    ] as const
    for (const [op, args] of bad) {
      const answer = await server.ask(op, args)
      assert.ok(answer['error'], op)
      assert.equal(JSON.stringify(answer).includes(SECRET), false)
    }
    const rude = connect(path)
    rude.write(`{"${SECRET}\n`)
    assert.equal(await readAll(rude), '')
    assert.equal(logged.join().includes(SECRET), false)
  })

  test('records are kept for the next server and go to the most recent connection', async () => {
    const first = new Server(path)
    await first.ask('open', spec())
    first.socket.destroy()
    await new Promise((resolve) => setTimeout(resolve, 50))
    const socket = await podd.proxy()
    socket.write('CONNECT evil.test:443 HTTP/1.1\r\n\r\n')
    await readAll(socket)
    await new Promise((resolve) => setTimeout(resolve, 150))
    const second = new Server(path)
    await second.ask('hello')
    assert.equal(second.events.length, 1)
    assert.equal(JSON.stringify(second.events).includes(SECRET), false)
  })

  test('one process listens on the control socket, and a stale socket is replaced', async () => {
    const other = startEgress({ socketPath: path, log: { info() {}, warn() {}, error() {} }, version: 'v2' })
    await assert.rejects(other, /already/)
  })

  test('a shutdown message ends the egress process', async () => {
    const server = new Server(path)
    assert.deepEqual((await server.ask('shutdown'))['result'], {})
    await egress.done
  })

  test('the egress process ends after a minute without a server and a sandbox', async () => {
    const clock = new FakeClock()
    const mixed = {
      now: () => clock.now(),
      after: (ms: number, fn: () => void) => (ms >= 60_000 ? clock : systemClock).after(ms, fn),
    }
    const log = { info() {}, warn() {}, error() {} }
    const lonely = await startEgress({ socketPath: `${path}2`, log, version: 'v1', clock: mixed })
    const server = new Server(`${path}2`)
    await server.ask('open', spec())
    server.socket.destroy()
    await new Promise((resolve) => setTimeout(resolve, 50))
    await clock.advance(120_000)
    const again = new Server(`${path}2`)
    await again.ask('close', { sandbox: 'sb-1' })
    await clock.advance(120_000)
    await again.ask('hello')
    again.socket.destroy()
    await new Promise((resolve) => setTimeout(resolve, 50))
    await clock.advance(60_000)
    await lonely.done
  })

  test('the egress process ends when its sandboxes are gone and no server closed them', async () => {
    const clock = new FakeClock()
    const mixed = {
      now: () => clock.now(),
      after: (ms: number, fn: () => void) => (ms >= 60_000 ? clock : systemClock).after(ms, fn),
    }
    const log = { info() {}, warn() {}, error() {} }
    const lonely = await startEgress({ socketPath: `${path}3`, log, version: 'v1', clock: mixed })
    const server = new Server(`${path}3`)
    await server.ask('open', { ...spec(), socket: `${path}.nobody` })
    server.socket.destroy()
    await new Promise((resolve) => setTimeout(resolve, 50))
    await clock.advance(60_000)
    await lonely.done
  })
})
