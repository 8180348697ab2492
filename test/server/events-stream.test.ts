// Events as a stream: everything once and in order, through restarts of the client, and nothing left behind.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { LOCAL } from '../../src/core/principal.ts'
import { Front } from '../support/front.ts'
import { errorOf, tcpRequest } from '../support/tcp.ts'
import { until } from '../support/world.ts'

let front: Front
let key = ''
before(async () => {
  front = await Front.open()
  key = front.key()
})
after(() => front[Symbol.asyncDispose]())

const owner = (): string => front.keys.verify(key).owner
const follow = (
  id: string,
  o: { headers?: Record<string, string>; query?: string; until?: RegExp } = {},
): ReturnType<typeof tcpRequest> =>
  tcpRequest({
    port: front.port,
    path: `/v1/sandboxes/${id}/events?follow=true${o.query ?? ''}`,
    headers: { 'x-api-key': key, ...o.headers },
    ...(o.until && { until: o.until }),
  })
const ids = (text: string): number[] => [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => Number(id))
const types = (text: string): string[] => [...text.matchAll(/^event: (.+)$/gm)].map(([, type]) => type ?? '')

test('API-6 a stream delivers past and new events, and ends with the sandbox', async () => {
  const { id } = await front.engine.sandboxes.create({ owner: owner() }, { owner: owner(), isAdmin: false })
  const stream = follow(id)
  await until('it follows', () => front.log.length >= 0)
  await new Promise((resolve) => setTimeout(resolve, 50))
  await front.engine.sandboxes.extend(id, 60_000, LOCAL)
  await front.engine.sandboxes.destroy(id, LOCAL)
  const answer = await stream
  assert.equal(answer.headers['content-type'], 'text/event-stream')
  assert.deepEqual(types(answer.text), [
    'sandbox.creating',
    'sandbox.running',
    'sandbox.extended',
    'sandbox.destroying',
    'sandbox.destroyed',
  ])
  const seen = ids(answer.text)
  assert.deepEqual(
    seen,
    [...new Set(seen)].sort((a, b) => a - b),
  )
  const plain = await tcpRequest({
    port: front.port,
    path: `/v1/sandboxes/${id}/events`,
    headers: { 'x-api-key': key },
  })
  assert.deepEqual(
    (JSON.parse(plain.text) as { seq: number }[]).map(({ seq }) => seq),
    seen,
  )
})

test('API-6 a client that reconnects with its last id misses nothing and gets nothing twice', async () => {
  const { id } = await front.engine.sandboxes.create({ owner: owner() }, { owner: owner(), isAdmin: false })
  const first = ids((await follow(id, { until: /sandbox\.running/ })).text)
  for (let i = 0; i < 250; i++) await front.engine.sandboxes.extend(id, 60_000 + i, LOCAL)
  const second = follow(id, { headers: { 'last-event-id': String(first.at(-1)) } })
  await front.engine.sandboxes.destroy(id, LOCAL)
  const all = [...first, ...ids((await second).text)]
  assert.equal(all.length, 2 + 250 + 2)
  assert.deepEqual(
    all,
    [...new Set(all)].sort((a, b) => a - b),
  )
  assert.deepEqual(ids((await follow(id, { query: `&after=${all.at(-2)}` })).text), [all.at(-1)])
})

test('a stream of a sandbox that fails ends too', async () => {
  const { id } = await front.engine.sandboxes.create({ owner: owner() }, { owner: owner(), isAdmin: false })
  const stream = follow(id)
  await new Promise((resolve) => setTimeout(resolve, 30))
  front.provider.lose(id)
  await front.clock.advance(10_000)
  assert.ok(types((await stream).text).includes('sandbox.failed'))
})

test('a silent stream sends a comment every fifteen seconds', async () => {
  const { id } = await front.engine.sandboxes.create({ owner: owner() }, { owner: owner(), isAdmin: false })
  const stream = follow(id, { until: /: alive\n\n/ })
  await new Promise((resolve) => setTimeout(resolve, 50))
  await front.clock.advance(15_000)
  assert.match((await stream).text, /: alive/)
  await front.engine.sandboxes.destroy(id, LOCAL)
})

describe('a request for a stream', () => {
  test('a stream of another owner’s sandbox is not found', async () => {
    const { id } = await front.engine.sandboxes.create({}, LOCAL)
    assert.equal((await follow(id)).status, 404)
    await front.engine.sandboxes.destroy(id, LOCAL)
  })

  test('a stream with an invalid last id is refused', async () => {
    const { id } = await front.engine.sandboxes.create({ owner: owner() }, { owner: owner(), isAdmin: false })
    for (const last of ['-1', 'x', '1.5', '9'.repeat(30)])
      assert.equal((await follow(id, { headers: { 'last-event-id': last } })).status, 400, last)
    for (const query of ['&after=-1', '&after=x', '&after=1&after=2', '&follow=false', '&aftr=1'])
      assert.equal((await follow(id, { query })).status, 400, query)
    await front.engine.sandboxes.destroy(id, LOCAL)
  })

  test('the number of streams is bounded, and places are freed when clients leave', async () => {
    const { id } = await front.engine.sandboxes.create({ owner: owner() }, { owner: owner(), isAdmin: false })
    const held = new AbortController()
    const open = Array.from({ length: 64 }, () =>
      front.engine.events.follow(
        id,
        { after: 0, keepaliveMs: 1e6, signal: held.signal },
        front.keys.verify(key),
      ),
    )
    await Promise.all(open.map((one) => one.next()))
    const refused = await follow(id)
    assert.deepEqual([refused.status, errorOf(refused).reason], [429, 'events.followers'])
    assert.equal(refused.headers['retry-after'], '5')
    held.abort()
    assert.equal((await follow(id, { until: /sandbox\.running/ })).status, 200)
    await front.engine.sandboxes.destroy(id, LOCAL)
  })
})
