// Groups over a real listener and a fake provider: owners, names, order, and failures.

import assert from 'node:assert/strict'
import { after, before, beforeEach, test } from 'node:test'
import type { SandboxId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import { Front } from '../support/front.ts'
import { type TcpAnswer, tcpRequest } from '../support/tcp.ts'

type Json = Record<string, unknown>
interface Member {
  readonly name: string
  readonly sandbox: { readonly id: string; readonly state: string } | null
}

let front: Front
let mine = ''
let theirs = ''
before(async () => {
  front = await Front.open({ rate: { perSecond: 1e6, burst: 1e6 } })
  mine = front.key()
  theirs = front.key()
})
after(() => front[Symbol.asyncDispose]())
beforeEach(async () => {
  for (const { group } of front.engine.groups.list(LOCAL)) await front.engine.groups.destroy(group.id, LOCAL)
  for (const { id } of front.engine.sandboxes.list({ labels: {}, all: false }, LOCAL))
    await front.engine.sandboxes.destroy(id, LOCAL)
})

async function ask(line: string, body?: unknown, key = mine): Promise<TcpAnswer & { json: Json & Json[] }> {
  const [method = '', path = ''] = line.split(' ')
  const answer = await tcpRequest({
    port: front.port,
    method,
    path,
    headers: { 'x-api-key': key },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  return { ...answer, json: answer.text === '' ? {} : JSON.parse(answer.text) }
}
const reasonOf = ({ json }: { json: Json }): unknown => (json['error'] as Json)['reason']
const membersOf = ({ json }: { json: Json }): Member[] => json['members'] as Member[]
const PAIR = {
  name: 'shop',
  members: [
    { name: 'web', main: true, after: ['db'], sandbox: {} },
    { name: 'db', aliases: ['database'], sandbox: {} },
  ],
}

test('GRP-1 a group is created in the order of its members, listed, changed and destroyed as one', async () => {
  const made = await ask('POST /v1/groups', PAIR)
  assert.equal(made.status, 201, made.text)
  const ids = membersOf(made).map(({ sandbox }) => sandbox?.id ?? '')
  const creates = front.provider.calls.filter((call) => call.startsWith('create '))
  assert.deepEqual(creates.slice(-2), [`create ${ids[1]}`, `create ${ids[0]}`], 'db before web')
  for (const [verb, state] of [
    ['pause', 'paused'],
    ['resume', 'running'],
    ['stop', 'stopped'],
    ['start', 'running'],
  ] as const) {
    const changed = await ask(`POST /v1/groups/shop/${verb}`)
    assert.deepEqual(
      membersOf(changed).map(({ sandbox }) => sandbox?.state),
      [state, state],
    )
  }
  assert.equal((await ask('DELETE /v1/groups/shop')).status, 200)
  assert.deepEqual(front.engine.sandboxes.list({ labels: {}, all: false }, LOCAL), [])
  assert.equal((await ask('GET /v1/groups/shop')).status, 404)
})

test('GP-01 GRP-6 another key sees no group, joins none, and its sandboxes reach no member', async () => {
  const made = await ask('POST /v1/groups', {
    name: 'shop',
    members: [...PAIR.members.slice(1), { name: 'free' }],
  })
  const [db] = membersOf(made)
  const id = made.json['id']
  for (const ref of ['shop', id]) {
    assert.equal((await ask(`GET /v1/groups/${ref}`)).status, 200, 'the control')
    for (const line of [`GET /v1/groups/${ref}`, `DELETE /v1/groups/${ref}`, `POST /v1/groups/${ref}/pause`])
      assert.deepEqual(reasonOf(await ask(line, undefined, theirs)), 'group.unknown')
    const place = { group: ref, member: 'free' }
    assert.equal(reasonOf(await ask('POST /v1/sandboxes', { place }, theirs)), 'group.unknown')
  }
  assert.deepEqual((await ask('GET /v1/groups', undefined, theirs)).json, [])
  const joined = await ask('POST /v1/sandboxes', { place: { group: 'shop', member: 'free' } })
  assert.equal(joined.status, 201, joined.text)
  const again = await ask('POST /v1/sandboxes', { place: { group: 'shop', member: 'free' } })
  assert.equal(reasonOf(again), 'group.place_taken')
  const foreign = await ask('POST /v1/sandboxes', {}, theirs)
  const dial = (from: unknown, member: string): Promise<string> =>
    front.engine.groups.dial({ from: from as SandboxId, member, port: 1 }, AbortSignal.timeout(5000)).then(
      (stream) => {
        stream.destroy()
        return 'connected'
      },
      (error: { reason?: string }) => error.reason ?? 'failed',
    )
  // Nothing listens there, which only a member learns.
  assert.equal(await dial(joined.json['id'], 'db'), 'port.closed')
  assert.equal(await dial(foreign.json['id'], 'db'), 'group.member')
  assert.equal(await dial(joined.json['id'], String(foreign.json['id'])), 'group.member')
  assert.equal(await dial(joined.json['id'], 'other'), 'group.member')
  await ask(`DELETE /v1/sandboxes/${db?.sandbox?.id}`)
  assert.equal(await dial(joined.json['id'], 'db'), 'group.member')
})

test('GP-04 GRP-7 names that are no host names, that stand for the host, or that are taken are refused', async () => {
  const named = (...names: string[]) => ({
    name: 'shop',
    members: names.map((name) => ({ name, sandbox: {} })),
  })
  assert.equal((await ask('POST /v1/groups', named('a', 'b'))).status, 201, 'the control')
  await ask('DELETE /v1/groups/shop')
  for (const bad of [
    'localhost',
    'x.localhost',
    'metadata',
    'example.com',
    'api.example.com',
    '127.0.0.1',
    'A',
    'a_b',
    'a b',
    '../a',
    '-a',
    '',
  ])
    assert.equal((await ask('POST /v1/groups', named('ok', bad))).status, 400, bad)
  assert.equal(reasonOf(await ask('POST /v1/groups', named('a', 'a'))), 'group.name_twice')
  const cycle = [
    { name: 'a', after: ['b'], sandbox: {} },
    { name: 'b', after: ['a'], sandbox: {} },
  ]
  const refused = await ask('POST /v1/groups', { name: 'shop', members: cycle })
  assert.equal(reasonOf(refused), 'group.order')
  assert.match(refused.text, /a → b → a/)
  assert.deepEqual(front.engine.sandboxes.list({ labels: {}, all: false }, LOCAL), [])
})

test('GRP-8 a member that fails takes the group with it, and the error names the member', async () => {
  const members = [
    { name: 'db', sandbox: {} },
    { name: 'web', after: ['db'], sandbox: { snapshot: 'missing' } },
  ]
  const refused = await ask('POST /v1/groups', { name: 'shop', members })
  assert.equal(reasonOf(refused), 'snapshot.unknown')
  assert.match(refused.text, /web: /)
  assert.deepEqual(front.engine.sandboxes.list({ labels: {}, all: false }, LOCAL), [])
  assert.deepEqual((await ask('GET /v1/groups')).json, [])
})

test('GRP-9 the other members follow the main one, and the group ends with it', async () => {
  const made = await ask('POST /v1/groups', PAIR)
  const [web, db] = membersOf(made).map(({ sandbox }) => sandbox?.id ?? '')
  const state = (): string => front.engine.sandboxes.get(db ?? '', LOCAL).state
  const settles = async (wanted: string): Promise<void> => {
    for (let tries = 0; tries < 100 && state() !== wanted; tries++)
      await new Promise((resolve) => setTimeout(resolve, 10))
    assert.equal(state(), wanted)
  }
  for (const [verb, wanted] of [
    ['pause', 'paused'],
    ['resume', 'running'],
    ['stop', 'stopped'],
    ['start', 'running'],
  ] as const) {
    await ask(`POST /v1/sandboxes/${web}/${verb}`)
    await settles(wanted)
  }
  await ask(`DELETE /v1/sandboxes/${web}`)
  await settles('destroyed')
  assert.deepEqual((await ask('GET /v1/groups')).json, [])
})

test('GP-05 GRP-12 a key has at most 100 groups', async () => {
  const named = (name: string) => ({ name, members: [{ name: 'free' }] })
  for (let n = 0; n < 100; n++) assert.equal((await ask('POST /v1/groups', named(`g${n}`))).status, 201)
  const refused = await ask('POST /v1/groups', named('more'))
  assert.equal(refused.status, 429, refused.text)
  assert.equal(reasonOf(refused), 'quota.groups')
  assert.equal((await ask('POST /v1/groups', named('more'), theirs)).status, 201, 'the control')
  await ask('DELETE /v1/groups/g0')
  assert.equal((await ask('POST /v1/groups', named('more'))).status, 201)
})
