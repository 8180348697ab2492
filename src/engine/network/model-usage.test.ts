import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { UsageRecord } from '../../core/network.ts'
import { UsageFeed } from './model-usage.ts'

const record = (output: number): UsageRecord => ({
  sandboxId: 'sb',
  model: 'm',
  input: 1,
  cached: 2,
  output,
})

test('model usage is delivered to every listener until it unsubscribes', () => {
  const feed = new UsageFeed()
  const [one, two]: [unknown[], unknown[]] = [[], []]
  const leave = feed.listen((sandboxId, usage) => one.push([sandboxId, usage]))
  feed.listen((_, { output }) => two.push(output))
  feed.note([record(3), record(4)])
  leave()
  feed.note([record(5)])
  assert.deepEqual(one, [
    ['sb', { model: 'm', input: 1, cached: 2, output: 3 }],
    ['sb', { model: 'm', input: 1, cached: 2, output: 4 }],
  ])
  assert.deepEqual(two, [3, 4, 5])
})

test('model usage from before the first listener is delivered to that listener', async () => {
  const feed = new UsageFeed()
  feed.note(Array.from({ length: 20_000 }, (_, n) => record(n)))
  const heard: number[] = []
  feed.listen((_, { output }) => heard.push(output))
  assert.deepEqual(heard, [])
  await Promise.resolve()
  assert.equal(heard.length, 10_000, 'within a bound')
  assert.equal(heard.at(-1), 19_999)
  const later: number[] = []
  feed.listen((_, { output }) => later.push(output))
  await Promise.resolve()
  assert.deepEqual(later, [])
})
