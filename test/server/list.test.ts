// Lists: filters, pages, owners, and the same speed with a long history.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { LONGEST_PAGE } from '../../src/api/schema/query.ts'
import { AgentPod } from '../../src/client/client.ts'
import { parseSandboxId } from '../../src/core/id.ts'
import { LOCAL } from '../../src/core/principal.ts'
import { sandboxStore } from '../../src/store/sandboxes.ts'
import { Front } from '../support/front.ts'
import { errorOf, type TcpAnswer, tcpRequest } from '../support/tcp.ts'

let front: Front
let key = ''
let admin = ''
before(async () => {
  front = await Front.open({ rate: { perSecond: 1e6, burst: 1e6 } })
  key = front.key()
  admin = front.key('admin')
  const { owner } = front.keys.verify(key)
  for (let i = 0; i < 25; i++) {
    const { id } = await front.engine.sandboxes.create(
      {
        owner,
        name: `box-${i}`,
        labels: { n: String(i % 5), all: 'yes' },
      },
      { owner, isAdmin: false },
    )
    if (i % 2 === 1) await front.engine.sandboxes.destroy(id, LOCAL)
    if (i % 10 === 0) await front.clock.advance(1)
  }
  await front.engine.sandboxes.create({ name: 'foreign', labels: { all: 'yes' } }, LOCAL)
})
after(() => front[Symbol.asyncDispose]())

const list = (query: string, secret = key): Promise<TcpAnswer> =>
  tcpRequest({ port: front.port, path: `/v1/sandboxes${query}`, headers: { 'x-api-key': secret } })
const names = ({ text }: TcpAnswer): string[] =>
  (JSON.parse(text) as { name: string }[]).map(({ name }) => name)

describe('a list', () => {
  test('a list has the caller’s own running sandboxes, newest first', async () => {
    const found = names(await list(''))
    assert.equal(found.length, 13)
    assert.ok(!found.includes('foreign'))
    assert.equal(names(await list('', admin)).length, 14)
    assert.equal(names(await list('?all=true')).length, 25)
    assert.equal(names(await list('?all=true', admin)).length, 26)
    assert.equal(names(await list('?all=false')).length, 13)
  })

  test('a list is filtered by label, state and name, alone and together', async () => {
    assert.deepEqual(new Set(names(await list('?label=n%3D2'))), new Set(['box-2', 'box-12', 'box-22']))
    assert.equal(names(await list('?label=n%3D2&all=true')).length, 5)
    assert.equal(names(await list('?label=n%3D2&label=all%3Dyes&all=true')).length, 5)
    assert.deepEqual(names(await list('?label=n%3D2&label=all%3Dno&all=true')), [])
    assert.equal(names(await list('?state=destroyed&all=true')).length, 12)
    assert.deepEqual(names(await list('?state=destroyed')), [])
    assert.equal(names(await list('?state=running')).length, 13)
    assert.deepEqual(names(await list('?name=box-3&all=true')), ['box-3'])
    assert.deepEqual(names(await list('?name=box-3')), [])
    assert.deepEqual(names(await list('?name=box-3&state=destroyed&label=n%3D3&all=true')), ['box-3'])
    assert.deepEqual(names(await list('?label=all%3Dyes&name=foreign&all=true')), [])
  })

  for (const query of ['', '&all=true', '&all=true&label=all%3Dyes', '&all=true&state=destroyed']) {
    test(`a list in pages${query} has every sandbox once and in order`, async () => {
      const whole = names(await list(`?limit=1000${query}`))
      for (const limit of [1, 4, whole.length]) {
        const seen: string[] = []
        let after: string | undefined
        do {
          const page = await list(`?limit=${limit}${query}${after ? `&after=${after}` : ''}`)
          assert.ok(names(page).length <= limit)
          seen.push(...names(page))
          after = page.headers['agentpod-next']
        } while (after !== undefined)
        assert.deepEqual(seen, whole)
      }
    })
  }

  test('the SDK lists the sandboxes of all pages', async () => {
    const { owner } = front.keys.verify(key)
    const stored = sandboxStore(front.state)
    const [one] = front.engine.sandboxes.list({ labels: {}, all: true }, { owner, isAdmin: false })
    assert.ok(one)
    const many = LONGEST_PAGE + 1
    for (let n = 0; n < many; n++) {
      const id = parseSandboxId(`paged${n}`)
      stored.insert({ ...one, id, name: undefined, labels: { paged: 'yes' }, endedAt: 1 }, undefined)
    }
    const pod = new AgentPod({ url: `http://127.0.0.1:${front.port}`, key })
    assert.equal((await pod.list({ labels: { paged: 'yes' }, all: true })).length, many)
    const page = names(await list('?label=paged%3Dyes&all=true'))
    assert.equal(page.length, LONGEST_PAGE, 'the control: it takes two pages')
  })

  test('a wrong query of a list is refused by name', async () => {
    for (const [query, reason] of [
      ['?limit=0', 'request.malformed'],
      ['?limit=1001', 'request.malformed'],
      ['?limit=1e2', 'request.malformed'],
      ['?limit=', 'request.malformed'],
      ['?limit=1&limit=2', 'query.repeated'],
      ['?all=yes', 'request.malformed'],
      ['?state=gone', 'request.malformed'],
      ['?label=x', 'request.malformed'],
      ['?label=%3Dx', 'request.malformed'],
      ['?after=x', 'page.after'],
      ['?after=1-../..', 'page.after'],
      ['?after=99999999999999999999-abcd', 'page.after'],
      ['?lable=a%3Db', 'request.unknown_key'],
      ['?__proto__=x', 'request.unknown_key'],
      ['?constructor=x', 'request.unknown_key'],
    ]) {
      const answer = await list(query ?? '')
      assert.deepEqual([answer.status, errorOf(answer).reason], [400, reason], query)
    }
  })

  test('a list takes hostile labels as text', async () => {
    for (const value of ["a%3D'%20or%201=1--", 'a%3D%25', 'a%3D%22%7D', `${'k'.repeat(5000)}%3Dv`])
      assert.deepEqual(names(await list(`?all=true&label=${value}`)), [])
  })
})

test('get and list cost the same with a hundred thousand rows behind them', async () => {
  const { state } = front
  const insert = state.prepare(
    `INSERT INTO sandboxes (id, name, labels, provider, state, spec, created_at, deadline_at, ended_at, owner)
     VALUES (?, NULL, ?, 'fake', ?, '{"environment":{},"resources":{},"lifetime":{}}', ?, 0, 1, ?)`,
  )
  const time = async (query: string): Promise<number> => {
    const times: number[] = []
    for (let i = 0; i < 9; i++) {
      const start = performance.now()
      await list(query)
      times.push(performance.now() - start)
    }
    return times.sort((a, b) => a - b)[4] ?? 0
  }
  const { id } = front.engine.sandboxes.list({ labels: {}, all: false }, LOCAL)[0] ?? { id: '' }
  const QUERIES = [
    '?limit=10',
    '?limit=10&all=true',
    '?limit=10&all=true&label=n%3D2',
    '?limit=10&all=true&state=destroyed',
    '?limit=10&all=true&name=box-3',
    `/${id}`,
  ]
  const before = new Map<string, number>()
  for (const query of QUERIES) before.set(query, await time(query))
  state.exec('BEGIN')
  for (let i = 0; i < 100_000; i++)
    insert.run(
      `h${String(i).padStart(12, '0')}`,
      '{"old":"yes"}',
      i % 100 === 0 ? 'failed' : 'destroyed',
      i,
      `k${i % 7}`,
    )
  state.exec('COMMIT')
  for (const query of QUERIES) {
    const [then, now] = [before.get(query) ?? 0, await time(query)]
    assert.ok(now < then * 3 + 5, `${query}: ${then.toFixed(2)} ms, then ${now.toFixed(2)} ms`)
  }
})
