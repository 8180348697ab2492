import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import type { NetRecord, UsageRecord } from '../core/network.ts'
import { readAll, testPolicy } from '../egress/testing/egress-fixture.ts'
import { FakePodd } from '../egress/testing/fake-podd.ts'
import type { LinkRules } from '../engine/network/network-parts.ts'
import { silentLog } from '../telemetry/log.ts'
import { systemClock } from '../util/clock.ts'
import { connectSocket, LineClient } from '../util/stream/line-client.ts'
import { EgressProcess } from './egress-process.ts'

/**
 * The real process, started, killed and found again as by the server; podd's side is a listener of the test.
 */
describe('the egress process', () => {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-egress-'))
  const socket = join(directory, 'egress.sock')
  const packages = join(directory, 'packages')
  const podd = new FakePodd(join(directory, 'out'))
  const door = { kind: 'socket', path: podd.path } as const
  const records: NetRecord[] = []
  const usage: UsageRecord[] = []
  const made: EgressProcess[] = []
  const server = (): EgressProcess => {
    const one = new EgressProcess({
      socket,
      script: join(import.meta.dirname, 'egress.ts'),
      logFile: join(directory, 'egress.log'),
      relays: directory,
      memberSocket: join(directory, 'members.sock'),
      cacheDirectory: packages,
      cacheLimitBytes: 1024 * 1024,
      log: silentLog,
      clock: systemClock,
      onRecords: (some) => void records.push(...some),
      onUsage: (some) => void usage.push(...some),
    })
    made.push(one)
    return one
  }
  const link = (sandbox = 'sandbox1', rules: readonly string[] = []): LinkRules => ({
    sandbox,
    policy: testPolicy(rules),
    secrets: [],
    intercept: 'needed',
    cache: true,
  })
  const until = async (what: string, isSo: () => boolean | Promise<boolean>, ms = 10_000): Promise<void> => {
    for (const end = performance.now() + ms; !(await isSo()); ) {
      if (performance.now() > end)
        assert.fail(`${what}: ${readFileSync(join(directory, 'egress.log'), 'utf8')}`)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  /**
   * Asks over a connection that is closed at once, so that the server stays the last one only for a moment.
   */
  const hello = async (): Promise<{ pid: number; links: string[] }> => {
    const connected = await connectSocket(socket)
    assert.ok(connected)
    const fail = (): Error => new Error('no answer')
    const client = new LineClient(connected, { onEvent() {}, onGone() {}, toError: fail, gone: fail })
    const answer = await client.call('hello', {})
    client.close()
    return answer as { pid: number; links: string[] }
  }
  const isAlive = (pid: number): boolean => {
    try {
      return !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
    } catch {
      return false
    }
  }
  const refused = async (host: string): Promise<string> => {
    const stream = await podd.direct({ name: host, port: 80 })
    stream.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    return readAll(stream)
  }

  before(() => podd.listen())
  after(async () => {
    for (const one of made) await one.leave()
    await podd.close()
    rmSync(directory, { recursive: true, force: true })
  })

  test('the egress process starts when a sandbox needs it, and reports its decisions', async () => {
    mkdirSync(packages)
    for (const name of ['.tmp-left', 'ab'.repeat(32)]) writeFileSync(join(packages, name), '')
    const first = server()
    first.open(link(), door)
    await until('it dials', () => podd.waiting > 0)
    assert.match(await refused('one.example.com'), /403 .*no rule allows one\.example\.com/s)
    await until('the record is there', () => records.some(({ host }) => host === 'one.example.com'))
    assert.equal((await first.counts('sandbox1'))?.denied, 1)
    assert.equal(await first.counts('nobody'), undefined)
    await until('what was left unfinished is gone', () => !existsSync(join(packages, '.tmp-left')))
    assert.ok(existsSync(join(packages, 'ab'.repeat(32))))
  })

  test('NET-6 RL-09: a killed egress process is back within two seconds and knows every link before it accepts anything', async () => {
    const [first] = made
    first?.open(link('sandbox2'), door)
    const { pid } = await hello()
    const killedAt = performance.now()
    process.kill(pid, 'SIGKILL')
    const isAnother = async (): Promise<boolean> => {
      const answer = await hello().catch(() => undefined)
      return answer !== undefined && answer.pid !== pid && answer.links.length === 2 && podd.waiting > 0
    }
    await until('another one is there', isAnother, 2000)
    assert.match(await refused('two.example.com'), /403/)
    assert.ok(performance.now() - killedAt < 2000)
    const again = await hello()
    assert.notEqual(again.pid, pid)
    assert.deepEqual(again.links.sort(), ['sandbox1', 'sandbox2'])
  })

  test('NET-6 the egress process outlives its server, and the next server closes the links it does not know', async () => {
    const before = await hello()
    await made[0]?.disconnect()
    assert.match(await refused('three.example.com'), /403/)
    const second = server()
    second.open(link('sandbox2', ['allowed.example.com']), door)
    await second.adopt()
    await until('what nobody knows is closed', async () => !(await hello()).links.includes('sandbox1'))
    assert.equal((await hello()).pid, before.pid)
    await until('what was decided meanwhile is told', () =>
      records.some(({ host }) => host === 'three.example.com'),
    )
  })

  test('I7: new rules that are refused leave no older rules in force', async () => {
    const second = made[1]
    const spec = link('sandbox3', ['allowed.example.com'])
    second?.open(spec, door)
    await until('it stands', async () => (await hello()).links.includes('sandbox3'))
    second?.open(
      { ...spec, policy: { ...spec.policy, addresses: { allowed: ['no block'], denied: [] } } },
      door,
    )
    await until('it is closed', async () => !(await hello()).links.includes('sandbox3'))
    assert.ok((await hello()).links.includes('sandbox2'), 'the control: others stay')
  })

  test('the egress process ends with a server that has no sandboxes', async () => {
    const { pid } = await hello()
    const second = made[1]
    second?.close('sandbox2')
    await second?.disconnect()
    await until('it is gone', () => !isAlive(pid))
  })
})

describe('a sandbox that may reach nothing', () => {
  const directory = mkdtempSync(join(tmpdir(), 'agentpod-egress-'))
  const podd = new FakePodd(join(directory, 'out'))
  const door = { kind: 'socket', path: podd.path } as const
  const records: NetRecord[] = []
  const socket = join(directory, 'egress.sock')
  const server = (): EgressProcess =>
    new EgressProcess({
      socket,
      script: join(import.meta.dirname, 'egress.ts'),
      logFile: join(directory, 'egress.log'),
      relays: directory,
      memberSocket: join(directory, 'members.sock'),
      log: silentLog,
      // A minute passes in a moment.
      clock: { now: systemClock.now, after: (ms, f) => systemClock.after(ms === 60_000 ? 50 : ms, f) },
      onRecords: (some) => void records.push(...some),
      onUsage: () => undefined,
    })
  const closed = (sandbox: string, rules: readonly string[] = []): LinkRules => ({
    sandbox,
    policy: testPolicy(rules),
    secrets: [],
    intercept: 'needed',
  })
  const until = async (what: string, isSo: () => boolean | Promise<boolean>): Promise<void> => {
    for (const end = performance.now() + 10_000; !(await isSo()); ) {
      assert.ok(performance.now() < end, `${what}: not within 10 s`)
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  }
  const isRunning = async (): Promise<boolean> => {
    const connected = await connectSocket(socket)
    connected?.destroy()
    return connected !== undefined
  }
  const isQuiet = (): Promise<void> =>
    until('it is gone', async () => podd.waiting === 0 && !(await isRunning()))
  const ask = async (host: string): Promise<string> => {
    const stream = await podd.direct({ name: host, port: 80 })
    stream.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
    return readAll(stream)
  }

  before(() => podd.listen())
  after(async () => {
    await podd.close()
    rmSync(directory, { recursive: true, force: true })
  })

  test('NET-7 starts no egress process before a program connects; then each connection is answered and recorded', async () => {
    const egress = server()
    egress.open(closed('quiet1'), door)
    await until('a connection waits', () => podd.waiting > 0)
    await new Promise((resolve) => setTimeout(resolve, 300))
    assert.equal(await isRunning(), false)
    assert.equal(podd.arrived, 1, 'and only one')
    const answers = await Promise.all(['a', 'b', 'c'].map((name) => ask(`${name}.example.com`)))
    for (const answer of answers)
      assert.match(answer, /^HTTP\/1\.1 403 .*no rule allows [abc]\.example\.com/s)
    await until('all are recorded', () =>
      ['a', 'b', 'c'].every((name) => records.some(({ host }) => host === `${name}.example.com`)),
    )
    assert.deepEqual((await egress.counts('quiet1'))?.denied, 3)
    egress.close('quiet1')
    await until('nobody needs it any more', async () => !(await isRunning()))
    await egress.leave()
    await isQuiet()
  })

  test('starts the egress process once a rule allows something', async () => {
    const egress = server()
    egress.open(closed('quiet2'), door)
    await until('a connection waits', () => podd.waiting > 0)
    assert.equal(await isRunning(), false)
    egress.open(closed('quiet2', ['allowed.example.com']), door)
    await until('it runs', isRunning)
    await until('it dials', () => podd.waiting >= 8)
    assert.match(await ask('d.example.com'), /403/)
    await egress.leave()
    await isQuiet()
  })

  test('NET-6 NET-7 is answered after its server has ended, and by the next server', async () => {
    const first = server()
    first.open(closed('quiet3'), door)
    await until('a connection waits', () => podd.waiting > 0)
    await first.disconnect()
    await until('the process dials', () => podd.waiting >= 8)
    assert.match(await ask('e.example.com'), /403/)
    const second = server()
    second.open(closed('quiet3'), door)
    await second.adopt()
    await until('the next server hears of it', () => records.some(({ host }) => host === 'e.example.com'))
    assert.match(await ask('f.example.com'), /403/)
    await second.leave()
    await isQuiet()
  })

  test('NET-6 after its first connection it is served by each process that follows a killed one', async () => {
    const egress = server()
    egress.open(closed('quiet4'), door)
    await until('a connection waits', () => podd.waiting === 1)
    assert.match(await ask('g.example.com'), /403/)
    const connected = await connectSocket(socket)
    assert.ok(connected)
    const fail = (): Error => new Error('no answer')
    const client = new LineClient(connected, { onEvent() {}, onGone() {}, toError: fail, gone: fail })
    const { pid } = (await client.call('hello', {})) as { pid: number }
    process.kill(pid, 'SIGKILL')
    client.close()
    // A connection that was handed to the killed process is closed without an answer.
    await until('it is back', async () => /403/.test(await ask('h.example.com')))
    await egress.leave()
    await isQuiet()
  })
})
