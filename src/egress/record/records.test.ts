import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { NetRecord } from '../../core/network.ts'
import { FakeClock } from '../../testing/fake-clock.ts'
import { type Occurrence, Records } from './records.ts'

function occurrence(host: string, more: Partial<Occurrence> = {}): Occurrence {
  return { verdict: 'denied', reason: 'rule.none', host, port: 443, via: 'connect', message: 'no', ...more }
}

function setUp(isServed = true) {
  const clock = new FakeClock()
  const state = { isServed, got: [] as NetRecord[], deliveries: 0 }
  const deliver = (records: readonly NetRecord[]): boolean => {
    if (!state.isServed) return false
    state.deliveries++
    state.got.push(...records)
    return true
  }
  return { clock, state, records: new Records({ sandbox: 's', clock, deliver }) }
}

describe('records', () => {
  test('the first occurrence is recorded within 100 ms, repetitions are counted', async () => {
    const { clock, state, records } = setUp()
    records.note(occurrence('a.example'))
    await clock.advance(100)
    assert.equal(state.got.length, 1)
    for (let at = 0; at < 500; at++) records.note(occurrence('a.example'))
    await clock.advance(1000)
    assert.equal(state.got.length, 1)
    await clock.advance(4000)
    assert.deepEqual(
      state.got.map(({ count }) => count),
      [1, 500],
    )
    await clock.advance(60_000)
    assert.equal(state.got.length, 2)
  })

  test('NET-7 a million denials make few records, and none is lost', async () => {
    const { clock, state, records } = setUp()
    for (let at = 0; at < 1_000_000; at++) {
      records.note(occurrence(`h${at % 5000}.example`))
      if (at % 100_000 === 0) await clock.advance(50)
    }
    await clock.advance(6000)
    assert.ok(state.got.length <= 600, String(state.got.length))
    assert.equal(
      state.got.reduce((sum, { count }) => sum + count, 0),
      1_000_000,
    )
    assert.ok(state.got.some(({ host }) => host === '(other)'))
  })

  test('bytes are added to a record without counting the decision again', async () => {
    const { clock, state, records } = setUp()
    const entry = records.note(occurrence('a.example', { verdict: 'allowed' }))
    await clock.advance(200)
    entry.add(10, 20)
    await clock.advance(5000)
    entry.add(1, 2)
    await clock.advance(10_000)
    assert.equal(
      state.got.reduce((sum, { count }) => sum + count, 0),
      1,
    )
    assert.equal(
      state.got.reduce((sum, { bytesIn }) => sum + bytesIn, 0),
      11,
    )
    assert.equal(
      state.got.reduce((sum, { bytesOut }) => sum + bytesOut, 0),
      22,
    )
  })

  test('records are bounded while no server is connected, and delivered to the next', async () => {
    const { clock, state, records } = setUp(false)
    for (let round = 0; round < 20; round++) {
      for (let at = 0; at < 200; at++) records.note(occurrence(`h${round}-${at}.example`))
      await clock.advance(5000)
    }
    assert.equal(state.got.length, 0)
    state.isServed = true
    records.flush()
    assert.ok(state.got.length <= 1003, String(state.got.length))
    assert.equal(
      state.got.reduce((sum, { count }) => sum + count, 0),
      4000,
    )
  })

  test('records are printable and contain no query', async () => {
    const { clock, state, records } = setUp()
    records.note(occurrence('a\x1b[31m.example', { path: '/a?token=secret' }))
    records.note(occurrence('x'.repeat(999)))
    await clock.advance(100)
    assert.match(state.got[0]?.host ?? '', /^[!-~]+$/)
    assert.equal(state.got[0]?.path, '/a')
    assert.equal(state.got[1]?.host.length, 253)
  })

  test('closed records leave no timer', async () => {
    const { clock, state, records } = setUp()
    records.note(occurrence('a.example'))
    records.close()
    assert.equal(state.got.length, 1)
    assert.equal(clock.waiting, 0)
  })
})
