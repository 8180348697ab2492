import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyedLock } from './keyed-lock.ts'

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

test('tasks of one key run one after another, in the order they came', async () => {
  const lock = new KeyedLock()
  const log: string[] = []
  const task = (name: string) => async (): Promise<void> => {
    log.push(`${name} begins`)
    await turn()
    log.push(`${name} ends`)
  }
  await Promise.all(['a', 'b', 'c'].map((name) => lock.run('key', task(name))))
  assert.deepEqual(log, ['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})

test('tasks of different keys run side by side', async () => {
  const lock = new KeyedLock()
  const { promise, resolve } = Promise.withResolvers<void>()
  const blocked = lock.run('one', () => promise)
  assert.equal(await lock.run('two', async () => 'free'), 'free')
  resolve()
  await blocked
})

test('a failure is its caller’s own and the next task runs', async () => {
  const lock = new KeyedLock()
  const failing = lock.run('key', async () => {
    throw new Error('mine')
  })
  const next = lock.run('key', async () => 'next')
  await assert.rejects(failing, /mine/)
  assert.equal(await next, 'next')
})

test('a task that throws at once does not break the key', async () => {
  const lock = new KeyedLock()
  await assert.rejects(
    lock.run('key', () => {
      throw new Error('at once')
    }),
    /at once/,
  )
  assert.equal(await lock.run('key', async () => 1), 1)
})

test('no two of a thousand tasks of few keys overlap within a key', async () => {
  const lock = new KeyedLock()
  const inside = new Map<string, number>()
  await Promise.all(
    Array.from({ length: 1000 }, (_, i) => {
      const key = `k${i % 7}`
      return lock.run(key, async () => {
        inside.set(key, (inside.get(key) ?? 0) + 1)
        assert.equal(inside.get(key), 1)
        await (i % 3 === 0 ? turn() : Promise.resolve())
        inside.set(key, 0)
      })
    }),
  )
})
