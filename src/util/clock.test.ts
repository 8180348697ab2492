import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FakeClock } from '../testing/fake-clock.ts'
import { sleep, systemClock } from './clock.ts'

test('the system clock tells the time', () => {
  const before = Date.now()
  const now = systemClock.now()
  assert.ok(now >= before && now <= Date.now())
})

test('a timer of the system clock fires once, and not when it was cancelled', async () => {
  const fired: string[] = []
  systemClock.after(1, () => fired.push('kept'))
  systemClock.after(1, () => fired.push('cancelled'))()
  await new Promise((resolve) => setTimeout(resolve, 30))
  assert.deepEqual(fired, ['kept'])
})

for (const [name, ms] of [
  ['longer than Node’s timers hold', 2 ** 31],
  ['of thirty days', 30 * 86_400_000],
] as const) {
  test(`a wait ${name} does not fire at once`, async () => {
    let isFired = false
    const cancel = systemClock.after(ms, () => {
      isFired = true
    })
    await new Promise((resolve) => setTimeout(resolve, 20))
    cancel()
    assert.equal(isFired, false)
  })
}

test('a negative wait fires as soon as it can', async () => {
  await new Promise<void>((resolve) => {
    systemClock.after(-5, resolve)
    // The clock's own timer keeps nobody alive.
    setTimeout(() => undefined, 20)
  })
})

test('sleep resolves after its time and not before', async () => {
  const clock = new FakeClock()
  let isOver = false
  const sleeping = sleep(clock, 100).then(() => {
    isOver = true
  })
  await clock.advance(99)
  assert.equal(isOver, false)
  await clock.advance(1)
  await sleeping
  assert.equal(isOver, true)
})

test('sleep rejects with the reason of its signal and leaves no timer', async () => {
  const clock = new FakeClock()
  const reason = new Error('enough')
  const controller = new AbortController()
  const sleeping = sleep(clock, 100, controller.signal)
  controller.abort(reason)
  await assert.rejects(sleeping, reason)
  await assert.rejects(sleep(clock, 100, controller.signal), reason)
  assert.equal(clock.waiting, 0)
})

test('a fake clock fires timers in the order of their times, also those set meanwhile', async () => {
  const clock = new FakeClock(0)
  const fired: string[] = []
  clock.after(20, () => fired.push(`b${clock.now()}`))
  clock.after(10, () => {
    fired.push(`a${clock.now()}`)
    clock.after(5, () => fired.push(`c${clock.now()}`))
  })
  clock.after(31, () => fired.push('late'))
  await clock.advance(30)
  assert.deepEqual(fired, ['a10', 'c15', 'b20'])
  assert.equal(clock.now(), 30)
})
