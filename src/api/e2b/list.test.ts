import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { SandboxId } from '../../core/id.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import { parseInput } from '../schema/parse.ts'
import { filtered, pageOf, parseMetadata } from './list.ts'
import { type ListQuery, listQuery } from './schema.ts'

function sandbox(id: string, startedAt: number, o: Partial<Sandbox> = {}): Sandbox {
  return { id: id as SandboxId, startedAt, state: 'running', labels: {}, ...o } as Sandbox
}
const query = (q: Record<string, string>): ListQuery => parseInput(listQuery, q)
const ids = (all: readonly Sandbox[]): string => all.map(({ id }) => id).join(' ')

describe('pages', () => {
  // Two of the same moment, and in no order.
  const all = [
    sandbox('bbbb', 2),
    sandbox('aaaa', 2),
    sandbox('dddd', 4),
    sandbox('cccc', 3),
    sandbox('eeee', 1),
  ]
  for (const [order, expected] of [
    ['desc', ['dddd cccc', 'bbbb aaaa', 'eeee']],
    ['asc', ['eeee aaaa', 'bbbb cccc', 'dddd']],
  ] as const) {
    test(`pages of E2B’s list contain every sandbox once, ${order}`, () => {
      const pages: string[] = []
      let next: string | undefined
      do {
        const page = pageOf(all, query({ limit: '2', order, ...(next && { nextToken: next }) }))
        pages.push(ids(page.items))
        next = page.next
      } while (next !== undefined)
      assert.deepEqual(pages, expected)
    })
  }

  test('the next page of E2B’s list skips nothing when the last sandbox of the page is gone', () => {
    const { next } = pageOf(all, query({ limit: '2' }))
    const left = all.filter(({ id }) => id !== 'cccc')
    assert.equal(ids(pageOf(left, query({ limit: '2', nextToken: next ?? '' })).items), 'bbbb aaaa')
  })

  test('a page token of E2B’s list that we did not issue is refused', () => {
    for (const nextToken of ['', 'x', Buffer.from('1:../..').toString('base64url')])
      assert.throws(() => pageOf(all, query({ nextToken })), /nextToken/)
  })
})

describe('filters', () => {
  const all = [
    sandbox('aaaa', 1000, { labels: { a: '1', 'agentpod/template': 'base' } }),
    sandbox('bbbb', 2000, { labels: { a: '1', b: '&=%' } }),
    sandbox('cccc', 3000, { state: 'creating' }),
    sandbox('dddd', 500, { state: 'paused' }),
    sandbox('eeee', 500, { state: 'stopped' }),
    sandbox('ffff', 500, { state: 'destroying' }),
  ]
  const found = (q: Record<string, string>): string => ids(filtered(all, query(q)))
  test('E2B’s list can be filtered by metadata', () => {
    assert.equal(found({ metadata: 'a=1' }), 'aaaa bbbb')
    assert.equal(found({ metadata: 'b=%2526%253D%2525' }), 'bbbb')
    assert.equal(found({ metadata: 'a=2' }), '')
    assert.equal(found({ metadata: 'agentpod%2Ftemplate=base' }), '', 'our labels are not their metadata')
    assert.equal(found({ metadata: 'constructor=x' }), '')
  })
  test('E2B’s list can be filtered by state', () => {
    assert.equal(found({ state: 'running' }), 'aaaa bbbb')
    assert.equal(found({ state: 'paused' }), 'dddd eeee')
    assert.equal(found({ state: 'running,paused' }), 'aaaa bbbb dddd eeee')
    assert.equal(found({}), 'aaaa bbbb dddd eeee')
    assert.throws(() => query({ state: 'sleeping' }), /state/)
  })
  test('E2B’s list can be filtered by start time', () => {
    assert.equal(found({ startedAfter: '1970-01-01T00:00:01.001Z' }), 'bbbb')
    assert.equal(found({ startedAfter: '1970-01-01T00:00:02.000Z' }), 'bbbb', 'that very moment counts')
    assert.equal(found({ startedAfter: '1970-01-01T00:00:02.001Z' }), '')
    assert.throws(() => query({ startedAfter: 'yesterday' }), /startedAfter/)
  })
  test('a page size of E2B’s list outside its limits is refused', () => {
    for (const limit of ['0', '101', 'x', '1.5']) assert.throws(() => query({ limit }), /limit/)
  })
})

test('a metadata filter that cannot be decoded is refused', () => {
  assert.throws(() => parseMetadata('a=%25zz'), /metadata filter/)
  assert.deepEqual(parseMetadata(''), {})
})
