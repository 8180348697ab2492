import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raceAbort, withTimeout } from './deadline.ts'

const never = new Promise<never>(() => undefined)
const late = (): Error => new Error('too late')

test('withTimeout returns the result of work that is done in time', async () => {
  assert.equal(await withTimeout(1000, undefined, async () => 'done', late), 'done')
})

test('withTimeout passes on the failure of the work', async () => {
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

test('withTimeout aborts work that takes too long', async () => {
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

test('withTimeout passes the caller’s signal to the work, and its reason to the caller', async () => {
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

test('withTimeout rejects with the reason of a signal that has already aborted', async () => {
  await assert.rejects(raceAbort(never, AbortSignal.abort(new Error('before'))), /before/)
})

test('a failure of the work after the caller gave up is not unhandled', async () => {
  const { promise, reject } = Promise.withResolvers<never>()
  await assert.rejects(raceAbort(promise, AbortSignal.abort(new Error('gone'))), /gone/)
  reject(new Error('late failure'))
  await new Promise((resolve) => setImmediate(resolve))
})
