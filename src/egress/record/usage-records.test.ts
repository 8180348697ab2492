import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ModelUsage, UsageRecord } from '../../core/network.ts'
import { FakeClock } from '../../testing/fake-clock.ts'
import { UsageRecords } from './usage-records.ts'

const ONE: ModelUsage = { model: 'm', input: 1, cached: 2, output: 3 }

class EgressFixture {
  readonly clock = new FakeClock()
  readonly told: UsageRecord[][] = []
  isThere = true
  readonly records = new UsageRecords({
    sandbox: 'sb',
    clock: this.clock,
    deliver: (some): boolean => {
      if (this.isThere) this.told.push([...some])
      return this.isThere
    },
  })
}

test('RUN-11 each answer is reported within a moment, and once', async () => {
  const { clock, records, told } = new EgressFixture()
  records.note(ONE)
  await clock.advance(100)
  assert.deepEqual(told, [[{ sandboxId: 'sb', ...ONE }]])
  records.note(ONE)
  records.note({ ...ONE, model: 'n' })
  await clock.advance(100)
  assert.deepEqual(
    told[1]?.map(({ model }) => model),
    ['m', 'n'],
  )
  await clock.advance(10_000)
  assert.equal(told.length, 2)
})

test('usage records are kept while no server is connected, and delivered to the next', async () => {
  const made = new EgressFixture()
  made.isThere = false
  made.records.note(ONE)
  await made.clock.advance(10_000)
  made.records.note(ONE)
  made.isThere = true
  made.records.flush()
  assert.deepEqual(
    made.told.map((some) => some.length),
    [2],
  )
  await made.clock.advance(10_000)
  assert.equal(made.told.length, 1)
})

test('RUN-11 SECURITY: kept records are bounded, however many there are, and no token is lost', async () => {
  const made = new EgressFixture()
  made.isThere = false
  for (let i = 0; i < 20_000; i++) made.records.note({ ...ONE, model: `model-${i % 3000}` })
  made.isThere = true
  made.records.flush()
  const [kept = []] = made.told
  assert.ok(kept.length <= 1000, `${kept.length}`)
  const sum = (of: (one: UsageRecord) => number): number => kept.reduce((all, one) => all + of(one), 0)
  assert.deepEqual(
    [sum((one) => one.input), sum((one) => one.cached), sum((one) => one.output)],
    [20_000, 40_000, 60_000],
  )
})
