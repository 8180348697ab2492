import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raceAbort, withTimeout } from './deadline.ts'

const never = new Promise<never>(() => undefined)
const late = (): Error => new Error('too late')

test('work that is done in time gives its answer', async () => {
  assert.equal(await withTimeout(1000, undefined, async () => 'done', late), 'done')
})

test('work that fails gives its failure', async () => {
  await assert.rejects(
    withTimeout(1000, undefined, () => Promise.reject(new Error('mine')), late),
    /mine/,
  )
  await assert.rejects(
    withTimeout(
      1000,
      undefined,
      () => {
        throw new Error('at once')
      },
      late,
    ),
    /at once/,
  )
})

test('work that takes too long is told so and given up', async () => {
  let seen: AbortSignal | undefined
  const pending = withTimeout(
    5,
    undefined,
    (signal) => {
      seen = signal
      return never
    },
    late,
  )
  await assert.rejects(pending, /too late/)
  assert.equal(seen?.aborted, true)
})

test('the caller’s signal reaches the work, and its reason the caller', async () => {
  const controller = new AbortController()
  let seen: AbortSignal | undefined
  const pending = withTimeout(
    1000,
    controller.signal,
    (signal) => {
      seen = signal
      return never
    },
    late,
  )
  const reason = new Error('never mind')
  controller.abort(reason)
  await assert.rejects(pending, reason)
  assert.equal(seen?.aborted, true)
})

test('a signal that has aborted before gives its reason', async () => {
  await assert.rejects(raceAbort(never, AbortSignal.abort(new Error('before'))), /before/)
})

test('a failure after the caller gave up troubles nobody', async () => {
  const { promise, reject } = Promise.withResolvers<never>()
  await assert.rejects(raceAbort(promise, AbortSignal.abort(new Error('gone'))), /gone/)
  reject(new Error('late failure'))
  await new Promise((resolve) => setImmediate(resolve))
})
