import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../../testing/fake-clock.ts'
import { SeededRandom } from '../../testing/seeded-random.ts'
import { OneTimeCodes } from './one-time-codes.ts'

function codes(): { codes: OneTimeCodes; clock: FakeClock } {
  const clock = new FakeClock()
  return { clock, codes: new OneTimeCodes({ clock, random: new SeededRandom(1) }) }
}

test('a one-time code opens its subject once', () => {
  const { codes: some } = codes()
  const code = some.issue('a:1')
  assert.match(code, /^[\w-]{32}$/)
  assert.ok(some.redeem(code, 'a:1'))
  assert.ok(!some.redeem(code, 'a:1'))
})

test('a one-time code tried on another subject is used up', () => {
  const { codes: some } = codes()
  const code = some.issue('a:1')
  assert.ok(!some.redeem(code, 'b:1'))
  assert.ok(!some.redeem(code, 'a:1'))
})

test('a one-time code expires after a minute', async () => {
  const { codes: some, clock } = codes()
  const [early, late] = [some.issue('a'), some.issue('a')]
  await clock.advance(59_999)
  assert.ok(some.redeem(early, 'a'))
  await clock.advance(1)
  assert.ok(!some.redeem(late, 'a'))
})

test('a code that was never issued opens nothing', () => {
  const { codes: some } = codes()
  some.issue('a')
  for (const word of ['', 'a', '__proto__', 'constructor']) assert.ok(!some.redeem(word, 'a'))
})

test('of more than a thousand one-time codes the oldest is dropped', () => {
  const { codes: some } = codes()
  const all = Array.from({ length: 1001 }, () => some.issue('a'))
  assert.ok(!some.redeem(all[0] ?? '', 'a'))
  assert.ok(some.redeem(all[1] ?? '', 'a'))
  assert.ok(some.redeem(all[1000] ?? '', 'a'))
})
