import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { ExchangeLimit } from '../../engine/exchange-limit.ts'
import { FakeClock } from '../../testing/fake-clock.ts'
import { retryAfter } from './error-response.ts'
import { RateLimit } from './rate-limit.ts'

function refusal(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    assert.ok(isAgentPodError(error, 'resource_exhausted'))
    return error
  }
  return undefined
}

test('the rate limit lets a burst pass, and refuses the next request with the time to wait', async () => {
  const clock = new FakeClock()
  const limit = new RateLimit(clock, { perSecond: 2, burst: 5 })
  for (let i = 0; i < 5; i++) limit.take('key')
  const refused = refusal(() => limit.take('key'))
  assert.equal(retryAfter(refused), '1')
  await clock.advance(499)
  assert.ok(refusal(() => limit.take('key')))
  await clock.advance(1)
  limit.take('key')
  assert.ok(refusal(() => limit.take('key')))
})

test('a refused request does not count against the rate limit, and a pause refills the bucket up to its size', async () => {
  const clock = new FakeClock()
  const limit = new RateLimit(clock, { perSecond: 1, burst: 3 })
  for (let i = 0; i < 3; i++) limit.take('key')
  for (let i = 0; i < 100; i++) refusal(() => limit.take('key'))
  await clock.advance(3_600_000)
  for (let i = 0; i < 3; i++) limit.take('key')
  assert.ok(refusal(() => limit.take('key')))
})

test('Retry-After is a whole number of seconds and never zero', () => {
  const limit = new RateLimit(new FakeClock(), { perSecond: 0.1, burst: 1 })
  limit.take('slow')
  assert.equal(retryAfter(refusal(() => limit.take('slow'))), '10')
  const fast = new RateLimit(new FakeClock(), { perSecond: 1000, burst: 1 })
  fast.take('fast')
  assert.equal(retryAfter(refusal(() => fast.take('fast'))), '1')
})

test('each key has its own rate limit', () => {
  const limit = new RateLimit(new FakeClock(), { perSecond: 1, burst: 1 })
  limit.take('a')
  assert.ok(refusal(() => limit.take('a')))
  limit.take('b')
})

test('setting the clock back does not extend the wait of the rate limit', () => {
  let now = 1_000_000
  const limit = new RateLimit({ now: () => now, after: () => () => undefined }, { perSecond: 1, burst: 1 })
  limit.take('a')
  now -= 500_000
  assert.ok(refusal(() => limit.take('a')))
  now += 1000
  limit.take('a')
})

test('places of an exchange limit are taken and given back, once each', () => {
  const slots = new ExchangeLimit(2)
  const [one, two] = [slots.enter('a'), slots.enter('a')]
  assert.ok(refusal(() => slots.enter('a')))
  slots.enter('b')
  one()
  one()
  slots.enter('a')
  assert.ok(refusal(() => slots.enter('a')))
  two()
  assert.equal(slots.size, 2)
})
