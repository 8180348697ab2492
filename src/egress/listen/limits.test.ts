import assert from 'node:assert/strict'
import { createServer as createHttp } from 'node:http'
import { createServer, Socket } from 'node:net'
import { after, before, beforeEach, describe, test } from 'node:test'
import { parseAddress } from '../../policy/address.ts'
import { hashRules, parseRule } from '../../policy/rule.ts'
import { FakeClock } from '../../testing/fake-clock.ts'
import { systemClock } from '../../util/clock.ts'
import { Budgets } from '../decide/budget.ts'
import { NameFlood, NEW_NAMES_PER_MINUTE_OPEN } from '../decide/name-flood.ts'
import { MOST_DIALED, SandboxEgress } from '../decide/sandbox-egress.ts'
import { EgressFixture, readAll, readUntil, SANDBOX, testPolicy } from '../testing/egress-fixture.ts'
import { BURST, ConnectionLimit, MOST_OPEN } from './connection-limit.ts'

describe('a change of the rules', () => {
  let stage: EgressFixture
  beforeEach(async () => {
    stage = await EgressFixture.open({
      policy: testPolicy(['a.example:7000', 'b.example:7000', 'c.example']),
    })
    for (const [at, host] of ['a.example', 'b.example', 'c.example'].entries())
      stage.name(host, [`192.0.2.1${at}`])
    const echo = () => createServer((socket) => socket.on('error', () => undefined).pipe(socket))
    await stage.place('192.0.2.10', 7000, echo())
    await stage.place('192.0.2.11', 7000, echo())
    await stage.place(
      '192.0.2.12',
      80,
      createHttp((_, res) => res.write('begun')),
    )
  })

  async function talk(host: string): Promise<Socket> {
    const socket = await stage.podd.direct({ name: host, port: 7000 })
    socket.write('\x01hello')
    await readUntil(socket, 'hello')
    return socket
  }
  const isCut = (socket: Socket): Promise<boolean> =>
    Promise.race([
      new Promise<boolean>((resolve) =>
        socket
          .resume()
          .once('close', () => resolve(true))
          .once('end', () => resolve(true)),
      ),
      new Promise<boolean>((resolve) => setTimeout(() => resolve(false), 300)),
    ])

  test('NET-5 a rule change cuts the connections it refuses and leaves the rest', async () => {
    const [a, b] = [await talk('a.example'), await talk('b.example')]
    stage.change({ policy: testPolicy(['b.example:7000']) })
    assert.equal(await isCut(a), true)
    b.write('still')
    assert.match(await readUntil(b, 'still'), /still/)
    await stage.close()
  })

  test('NET-5 a rule change cuts a running request, an address that is now denied, and a tunnel that must now be opened', async () => {
    const request = await stage.podd.direct({ name: 'c.example', port: 80 })
    request.write('GET / HTTP/1.1\r\nHost: c.example\r\n\r\n')
    await readUntil(request, 'begun')
    const [a, b] = [await talk('a.example'), await talk('b.example')]
    const rules = ['a.example:7000', { host: 'b.example', ports: [7000], paths: ['/x'] }]
    stage.change({ policy: testPolicy(rules, { addresses: { allowed: [], denied: ['192.0.2.10'] } }) })
    assert.deepEqual(await Promise.all([request, a, b].map(isCut)), [true, true, true])
    await stage.close()
  })

  test('a malformed rule change changes nothing', async () => {
    const a = await talk('a.example')
    assert.throws(() =>
      stage.change({ policy: testPolicy([], { addresses: { allowed: ['x'], denied: [] } }) }),
    )
    assert.equal(await isCut(a), false)
    a.write('more')
    assert.match(await readUntil(a, 'more'), /more/)
    await stage.close()
  })

  test('closing a sandbox ends all its connections', async () => {
    const a = await talk('a.example')
    stage.egress.close(SANDBOX)
    assert.equal(await isCut(a), true)
    assert.deepEqual(stage.egress.links, [])
    assert.throws(() => stage.egress.counts(SANDBOX))
    stage.egress.close(SANDBOX)
    await stage.close()
  })
})

describe('a budget', () => {
  test('NET-10 a budget of requests holds for a minute, and for all rules that were cut from it together', () => {
    const clock = new FakeClock()
    const budgets = new Budgets(clock)
    const grant = parseRule({ host: 'a.example', budget: { requestsPerMinute: 3 } }, 'user')
    const [one, other] = ['/a', '/b'].map((path) => ({
      ...grant,
      budget: undefined,
      paths: [path],
      within: grant,
    }))
    assert.deepEqual(
      [one, other, one].map((rule) => budgets.admit(rule)),
      [undefined, undefined, undefined],
    )
    assert.equal(budgets.admit(other), 'budget.rate')
    assert.equal(budgets.admit(grant), 'budget.rate')
    void clock.advance(61_000)
  })

  test('a request budget recovers', async () => {
    const clock = new FakeClock()
    const budgets = new Budgets(clock)
    const rule = parseRule({ host: 'a.example', budget: { requestsPerMinute: 1 } }, 'user')
    assert.equal(budgets.admit(rule), undefined)
    await clock.advance(59_000)
    assert.equal(budgets.admit(rule), 'budget.rate')
    await clock.advance(1000)
    assert.equal(budgets.admit(rule), undefined)
  })

  test('an equal rule in a new policy keeps its used budget', () => {
    const budgets = new Budgets(new FakeClock())
    const make = () => parseRule({ host: 'a.example', budget: { bytes: 10 } }, 'user')
    assert.equal(hashRules([make()]), hashRules([make()]))
    assert.equal(budgets.spender(make())?.(8), true)
    assert.equal(budgets.spender(make())?.(8), false)
    assert.equal(budgets.admit(make()), 'budget.bytes')
    assert.equal(budgets.spender(parseRule('a.example', 'user')), undefined)
  })

  test('NET-10 a used-up budget cuts a tunnel and refuses requests', async () => {
    const rules = [
      { host: 'raw.example', ports: [7000], budget: { bytes: 1000 } },
      { host: 'web.example', budget: { requestsPerMinute: 2 } },
    ]
    const stage = await EgressFixture.open({ policy: testPolicy(rules) })
    stage.name('raw.example', ['192.0.2.10'])
    stage.name('web.example', ['192.0.2.10'])
    await stage.place(
      '192.0.2.10',
      7000,
      createServer((socket) => socket.on('error', () => undefined).resume()),
    )
    await stage.place(
      '192.0.2.10',
      80,
      createHttp((_, res) => res.end('ok')),
    )
    const raw = await stage.podd.direct({ name: 'raw.example', port: 7000 })
    raw.write(Buffer.alloc(1001, 1))
    assert.equal(await readAll(raw), '')
    const web = async (): Promise<string> => {
      const socket = await stage.podd.direct({ name: 'web.example', port: 80 })
      socket.write('GET / HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n\r\n')
      return (await readAll(socket)).split('\r\n')[0] ?? ''
    }
    assert.deepEqual(
      [await web(), await web(), await web()],
      ['HTTP/1.1 200 OK', 'HTTP/1.1 200 OK', 'HTTP/1.1 429 Too Many Requests'],
    )
    await new Promise((resolve) => setTimeout(resolve, 150))
    assert.deepEqual(
      new Set(stage.records.filter(({ verdict }) => verdict === 'denied').map(({ reason }) => reason)),
      new Set(['budget.bytes', 'budget.rate']),
    )
    await stage.close()
  })
})

describe('a sandbox', () => {
  test('NET-10 a sandbox has a limit on connections at once, and on new ones a second', async () => {
    const clock = new FakeClock()
    const cap = new ConnectionLimit(clock)
    for (let at = 0; at < BURST; at++) assert.equal(cap.enter(), true)
    assert.equal(cap.enter(), false)
    await clock.advance(1000)
    for (let at = 0; at < 64; at++) assert.equal(cap.enter(), true)
    assert.equal(cap.enter(), false)
    await clock.advance(60_000)
    while (cap.open < MOST_OPEN) {
      if (!cap.enter()) await clock.advance(1000)
    }
    await clock.advance(60_000)
    assert.equal(cap.enter(), false)
    cap.leave()
    assert.equal(cap.enter(), true)
  })

  test('a sandbox over its connection limit gets a refusal', async () => {
    const stage = await EgressFixture.open({ clock: { now: () => 0, after: systemClock.after } })
    const sockets: Socket[] = []
    for (let at = 0; at < BURST; at++) sockets.push(await stage.podd.proxy())
    const one = await stage.podd.proxy()
    one.write('GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n\r\n')
    assert.match(await readAll(one), /^HTTP\/1\.1 429 [\s\S]*cap\.connections/)
    assert.equal(stage.egress.counts(SANDBOX).open, BURST)
    for (const socket of sockets) socket.destroy()
    await stage.close()
  })

  test('NET-10 a sandbox has a limit on new names below a wildcard in a minute', async () => {
    const clock = new FakeClock()
    const flood = new NameFlood(clock)
    const rule = parseRule('*.wild.example', 'user')
    for (let at = 0; at < 60; at++) assert.equal(flood.admits(rule, `n${at}.wild.example`), true)
    assert.equal(flood.admits(rule, 'n60.wild.example'), false)
    assert.equal(flood.admits(rule, 'n7.wild.example'), true)
    assert.equal(flood.admits(parseRule('plain.example', 'user'), 'plain.example'), true)
    await clock.advance(60_000)
    assert.equal(flood.admits(rule, 'n60.wild.example'), true)
  })

  test('NET-10 a sandbox has a limit on new names in a minute where the network is open', async () => {
    const clock = new FakeClock()
    const flood = new NameFlood(clock)
    for (let at = 0; at < NEW_NAMES_PER_MINUTE_OPEN; at++)
      assert.equal(flood.admits(undefined, `n${at}.example`), true)
    assert.equal(flood.admits(undefined, 'one-more.example'), false)
    assert.equal(flood.admits(undefined, 'n7.example'), true)
    assert.equal(flood.admits(parseRule('*.wild.example', 'user'), 'a.wild.example'), true)
    await clock.advance(60_000)
    assert.equal(flood.admits(undefined, 'one-more.example'), true)
  })

  test('NET-10 a flood of names is refused before they are resolved', async () => {
    const stage = await EgressFixture.open({ policy: testPolicy(['*.wild.example']) })
    const answers: string[] = []
    for (let at = 0; at < 62; at++) {
      const socket = await stage.podd.proxy()
      socket.write(`CONNECT token${at}.wild.example:443 HTTP/1.1\r\n\r\n`)
      answers.push((await readAll(socket)).split(' ')[1] ?? '')
    }
    assert.deepEqual(answers.slice(59), ['502', '429', '429'])
    assert.equal(stage.asked.length, 60)
    await stage.close()
  })
})

describe('idle connections', () => {
  let stage: EgressFixture
  before(async () => {
    stage = await EgressFixture.open()
  })
  after(() => stage.close())
  const until = async (is: () => boolean): Promise<void> => {
    for (let at = 0; at < 200 && !is(); at++) await new Promise((resolve) => setTimeout(resolve, 10))
    assert.equal(is(), true)
  }

  test('there are eight idle connections to podd, and a used one is replaced', async () => {
    await until(() => stage.podd.waiting === 8)
    const taken = await Promise.all(Array.from({ length: 20 }, () => stage.podd.proxy()))
    await until(() => stage.podd.waiting === 8)
    assert.equal(stage.podd.arrived, 28)
    for (const socket of taken) socket.destroy()
  })

  test('idle connections are opened again when podd comes back', async () => {
    const { path } = stage.podd
    await stage.podd.close()
    await new Promise((resolve) => setTimeout(resolve, 150))
    const { FakePodd } = await import('../testing/fake-podd.ts')
    const again = new FakePodd(path)
    await again.listen()
    await until(() => again.waiting === 8)
    stage.egress.closeAll()
    await again.close()
    await stage.podd.listen()
  })
})

test('a sandbox is limited in connections to servers, and a closed one makes room', async () => {
  const address = parseAddress('192.0.2.10')
  const sandbox = new SandboxEgress(
    { sandbox: SANDBOX, socket: '/nowhere', policy: testPolicy([]), secrets: [], intercept: 'needed' },
    {
      clock: new FakeClock(),
      log: { info() {}, warn() {}, error() {} },
      resolve: async () => [],
      dial: async () => new Socket(),
      ownAddresses: () => [],
      deliver: () => true,
      deliverUsage: () => true,
    },
  )
  const dial = () =>
    sandbox.dialRoute({ kind: 'addresses', addresses: [address] }, { kind: 'address', address, port: 443 })
  const held = await Promise.all(Array.from({ length: MOST_DIALED }, dial))
  await assert.rejects(dial(), { reason: 'cap.connections' })
  const closed = new Promise((resolve) => held[0]?.socket.once('close', resolve))
  held[0]?.socket.destroy()
  await closed
  assert.ok((await dial()).socket)
  sandbox.close()
})
