/** CP-26: a key with a lowest isolation gets no weaker sandbox, whichever way it asks for one. */
import assert from 'node:assert/strict'
import type { IncomingMessage } from 'node:http'
import { after, before, test } from 'node:test'
import { setPrincipal } from '../../src/api/principal-of.ts'
import { LOCAL } from '../../src/core/principal.ts'
import { FakeClock } from '../../src/testing/fake-clock.ts'
import { FakeProvider } from '../../src/testing/fake-provider.ts'
import { recipe, step } from '../support/build-stage.ts'
import { Front } from '../support/front.ts'

/** The default provider, `fake`, makes containers. This one is not the default. */
const strong = new FakeProvider({ clock: new FakeClock(), name: 'strong', isolation: 'gvisor' })

let front: Front
/** Secrets of a key with the rule and of one without, which is the control. */
let guarded: string
let free: string
before(async () => {
  front = await Front.open({ providers: [strong] })
  const make = (isolation?: 'gvisor'): string =>
    front.keys.create({ name: 'key', scope: 'sandboxes', isolation, network: { mode: 'open' } }, LOCAL).secret
  guarded = make('gvisor')
  free = make()
})
after(() => front[Symbol.asyncDispose]())

interface Answer {
  readonly status: number
  readonly text: string
}

async function ask(secret: string, line: string, body?: object): Promise<Answer> {
  const [method = '', path = ''] = line.split(' ')
  const incoming = {} as IncomingMessage
  setPrincipal(incoming, front.keys.verify(secret))
  const init = { method, ...(body && { body: JSON.stringify(body) }) }
  const response = await front.app.request(path, init, { incoming })
  return { status: response.status, text: await response.text() }
}

/** The levels of all sandboxes that a key has ever had. */
function levels(secret: string): string[] {
  const { owner } = front.keys.verify(secret)
  return front.engine.sandboxes
    .list({ labels: {}, all: true }, LOCAL)
    .filter((one) => one.owner === owner || one.labels['agentpod/build'] !== undefined)
    .map(({ isolation }) => isolation)
}

async function created(secret: string, body: object = {}): Promise<{ id: string; isolation: string }> {
  const { status, text } = await ask(secret, 'POST /v1/sandboxes', body)
  assert.equal(status, 201, text)
  return JSON.parse(text) as { id: string; isolation: string }
}

test('PROV-10 CP-26 create: the level is that of the key, whatever the request says, and the control gets a container', async () => {
  assert.equal((await created(free)).isolation, 'container')
  assert.equal((await created(guarded)).isolation, 'gvisor')
  assert.equal((await created(guarded, { isolation: 'container' })).isolation, 'gvisor')
  const named = await ask(guarded, 'POST /v1/sandboxes', { provider: 'fake' })
  assert.equal(named.status, 422)
  assert.match(
    named.text,
    /the provider fake does not offer isolation gvisor, which this key or server requires/,
  )
  assert.equal((await ask(free, 'POST /v1/sandboxes', { provider: 'fake' })).status, 201)
})

test('CP-26 fork, snapshot and restore keep the level', async () => {
  const { id } = await created(guarded)
  assert.equal((await ask(guarded, `POST /v1/sandboxes/${id}/fork`, { count: 2 })).status, 201)
  const taken = await ask(guarded, `POST /v1/sandboxes/${id}/snapshots`, {})
  const { id: snapshot } = JSON.parse(taken.text) as { id: string }
  assert.equal((await created(guarded, { snapshot })).isolation, 'gvisor')
  assert.equal((await created(guarded, { snapshot, isolation: 'container' })).isolation, 'gvisor')
  const other = await ask(guarded, 'POST /v1/sandboxes', { snapshot, provider: 'fake' })
  assert.equal(other.status, 400)
})

test('CP-26 an environment that was built for others in containers is refused', async () => {
  const built = await ask(free, 'POST /v1/builds', { recipe: recipe(step('one')) })
  const digest = /"digest":"([0-9a-f]+)"/.exec(built.text)?.[1] ?? assert.fail(built.text)
  assert.equal((await created(free, { environment: { digest } })).isolation, 'container')
  const no = await ask(guarded, 'POST /v1/sandboxes', { environment: { digest } })
  assert.notEqual(no.status, 201)
})

test('CP-26 builds, groups and E2B’s routes make sandboxes of the level', async () => {
  const before = strong.calls.filter((call) => call.startsWith('create ')).length
  const weak = front.provider.calls.filter((call) => call.startsWith('create ')).length
  const built = await ask(guarded, 'POST /v1/builds', { recipe: recipe(step('two'), step('three')) })
  const digest = /"digest":"([0-9a-f]+)"/.exec(built.text)?.[1] ?? assert.fail(built.text)
  assert.equal((await created(guarded, { environment: { digest } })).isolation, 'gvisor')
  const group = await ask(guarded, 'POST /v1/groups', {
    name: 'pair',
    members: [
      { name: 'web', main: true, sandbox: {} },
      { name: 'db', sandbox: {} },
    ],
  })
  assert.equal(group.status, 201, group.text)
  const e2b = await ask(guarded, 'POST /sandboxes', { templateID: 'base' })
  assert.equal(e2b.status, 201, e2b.text)
  const { sandboxID } = JSON.parse(e2b.text) as { sandboxID: string }
  assert.equal((await ask(guarded, `POST /sandboxes/${sandboxID}/fork`, {})).status, 201)
  assert.equal(strong.calls.filter((call) => call.startsWith('create ')).length, before + 7)
  assert.equal(front.provider.calls.filter((call) => call.startsWith('create ')).length, weak, 'no container')
})

test('CP-26 no sandbox of the key was ever a container', () => {
  const own = front.engine.sandboxes
    .list({ labels: {}, all: true }, LOCAL)
    .filter(({ owner }) => owner === front.keys.verify(guarded).owner)
  assert.ok(own.length >= 8, String(own.length))
  assert.deepEqual(new Set(own.map(({ isolation }) => isolation)), new Set(['gvisor']))
  assert.ok(levels(free).includes('container'), 'the control')
})

test('CP-26 the engine looks at the owner: a principal that lost its rule does not help', async () => {
  const { owner } = front.keys.verify(guarded)
  const { isolation } = await front.engine.sandboxes.create({}, { owner, isAdmin: false })
  assert.equal(isolation, 'gvisor')
  const forOther = await front.engine.sandboxes.create({ owner: 'key_other' }, { owner, isAdmin: true })
  assert.equal(forOther.isolation, 'gvisor')
})
