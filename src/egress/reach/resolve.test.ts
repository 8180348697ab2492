import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { HostName } from '../../policy/host-name.ts'
import { settled } from '../../testing/fake-clock.ts'
import { FairSemaphore } from './fair-semaphore.ts'
import { Lookups, type Resolve } from './resolve.ts'

const host = (text: string): HostName => text as HostName

describe('the fair semaphore', () => {
  test('askers that never release leave places for others', async () => {
    const turns = new FairSemaphore({ places: 24 })
    let taken = 0
    for (let hog = 0; hog < 6; hog++) {
      const asker = {}
      for (let at = 0; at < 4; at++) void turns.acquire(asker).then(() => taken++)
    }
    await settled()
    const hogs = taken
    assert.ok(hogs < 24, String(hogs))
    const leave = await turns.acquire({})
    leave()
    assert.equal(taken, hogs)
  })

  test('the asker with the fewest places is next, then the one that waits longest', async () => {
    const turns = new FairSemaphore({ places: 2 })
    const [a, b, c] = [{}, {}, {}]
    const order: string[] = []
    const enter = (name: string, asker: object): void =>
      void turns.acquire(asker).then((leave) => {
        order.push(name)
        setImmediate(leave)
      })
    for (const name of ['a1', 'a2', 'a3', 'a4']) enter(name, a)
    enter('b1', b)
    enter('c1', c)
    enter('b2', b)
    while (order.length < 7) await settled()
    assert.equal(order[0], 'a1')
    assert.ok(order.indexOf('b1') < order.indexOf('a3') && order.indexOf('c1') < order.indexOf('a4'))
    assert.equal(order.length, 7)
  })
})

describe('lookups of a sandbox', () => {
  /** Answers when it is told to. */
  function held(): { readonly resolve: Resolve; readonly asked: string[]; readonly answer: (() => void)[] } {
    const [asked, answer]: [string[], (() => void)[]] = [[], []]
    const resolve: Resolve = (name) =>
      new Promise((done) => {
        asked.push(name)
        answer.push(() => done(['192.0.2.1']))
      })
    return { resolve, asked, answer }
  }

  test('a waiting lookup has the same timeout and then leaves the queue', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] })
    const { resolve, asked, answer } = held()
    const lookups = new Lookups(resolve)
    const { signal } = new AbortController()
    const all = Array.from({ length: 6 }, (_, at) => lookups.addresses(host(`n${at}.example`), signal))
    const ends = Promise.allSettled(all)
    await Promise.resolve()
    assert.equal(asked.length, 4)
    t.mock.timers.tick(5001)
    for (const end of await ends)
      assert.equal(end.status === 'rejected' && (end.reason as { reason: string }).reason, 'dns.slow')
    // The places are the resolver's until it is done; nobody who gave up takes one.
    for (const done of answer) done()
    await new Promise((resolve) => setImmediate(resolve))
    assert.equal(asked.length, 4)
    const last = lookups.addresses(host('last.example'), signal)
    await Promise.resolve()
    assert.equal(asked.at(-1), 'last.example')
    answer.at(-1)?.()
    assert.deepEqual(await last, ['192.0.2.1'])
  })

  test('the queue of lookups is bounded', async () => {
    const { resolve, answer } = held()
    const lookups = new Lookups(resolve)
    const control = new AbortController()
    const all = Array.from({ length: 4 + 256 }, (_, at) =>
      lookups.addresses(host(`n${at}.example`), control.signal).catch(() => undefined),
    )
    await assert.rejects(lookups.addresses(host('more.example'), control.signal), { reason: 'cap.lookups' })
    control.abort(new Error('over'))
    await Promise.all(all)
    for (const done of answer) done()
  })

  test('a lookup identifies its sandbox to the resolver', async () => {
    const askers = new Set<object>()
    const resolve: Resolve = async (_, __, asker) => {
      askers.add(asker)
      return ['192.0.2.1']
    }
    const [a, b] = [new Lookups(resolve), new Lookups(resolve)]
    const { signal } = new AbortController()
    for (const lookups of [a, b, a]) await lookups.addresses(host('a.example'), signal)
    assert.equal(askers.size, 2)
  })
})
