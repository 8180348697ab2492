import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../core/error.ts'
import { FakeClock, settled } from '../testing/fake-clock.ts'
import { readJson } from './body.ts'

const request = (body: string | ReadableStream): Request =>
  new Request('http://x/', { method: 'POST', body, duplex: 'half' } as RequestInit)

const refuses = (body: string, reason: string): Promise<void> =>
  assert.rejects(readJson(request(body)), (error) => isAgentPodError(error) && error.reason === reason)

describe('CP-15 a body', () => {
  test('of 64 levels is read, one of 65 is not, and one of 100,000 ends nothing', async () => {
    const deep = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels)
    await readJson(request(deep(64)))
    await refuses(deep(65), 'body.too_deep')
    await refuses(deep(100_000), 'body.too_deep')
    await refuses(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`, 'body.too_deep')
  })

  for (const key of ['__proto__', 'constructor', 'prototype']) {
    test(`with ${key} as a key is refused at any depth and in any spelling`, async () => {
      const escaped = [...key].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
      for (const spelled of [key, escaped]) {
        await refuses(`{"${spelled}":1}`, 'body.dangerous_key')
        await refuses(`{"a":[{"b":{"${spelled}":{}}}]}`, 'body.dangerous_key')
      }
      assert.deepEqual(await readJson(request(`{"a":"${key}"}`)), { a: key }, 'a value may be that')
    })
  }

  test('with a key twice is refused, also where the spelling differs', async () => {
    await refuses('{"a":1,"a":2}', 'body.duplicate_key')
    await refuses('{"a":1,"\\u0061":2}', 'body.duplicate_key')
    await refuses('{"x":{"a":1,"b":{"a":1},"a":2}}', 'body.duplicate_key')
    assert.deepEqual(await readJson(request('{"a":{"a":1},"b":[{"a":1},{"a":"a"}]}')), {
      a: { a: 1 },
      b: [{ a: 1 }, { a: 'a' }],
    })
  })

  test('with half a character is refused, and a whole one of two halves is not', async () => {
    await refuses('{"a":"\\ud800"}', 'body.malformed')
    await refuses('{"\\udfff":1}', 'body.malformed')
    assert.deepEqual(await readJson(request('{"a":"\\ud83d\\ude00"}')), { a: '😀' })
  })

  test('with brackets and quotes inside its texts is no deeper for them', async () => {
    const text = `${'[{"]},"'.repeat(100)}\\`
    assert.deepEqual(await readJson(request(JSON.stringify({ a: text, b: [text] }))), { a: text, b: [text] })
  })

  test('of bytes that are no text is refused', async () => {
    for (const bytes of ['NaN', 'Infinity', '{a:1}', '01', '"\t"', "{'a':1}", '{"a":1,}', '\ufeff{}x'])
      await refuses(bytes, 'body.malformed')
  })
})

describe('CP-16 a body', () => {
  function slow(): { body: ReadableStream; push: (text: string) => void } {
    let push = (_: string): void => undefined
    const body = new ReadableStream({
      start(controller) {
        push = (text) => controller.enqueue(new TextEncoder().encode(text))
      },
    })
    return { body, push: (text) => push(text) }
  }
  const isSlow = (error: unknown): boolean =>
    isAgentPodError(error, 'deadline_exceeded') && error.reason === 'body.slow'

  test('that stops is given up', async () => {
    const clock = new FakeClock()
    const { body, push } = slow()
    const refused = assert.rejects(readJson(request(body), { clock, idleMs: 100, totalMs: 1000 }), isSlow)
    push('{')
    await clock.advance(99)
    push('"a"')
    await clock.advance(101)
    await refused
    assert.equal(clock.waiting, 0)
  })

  test('that drips is given up too', async () => {
    const clock = new FakeClock()
    const { body, push } = slow()
    let isOver = false
    const refused = assert
      .rejects(readJson(request(body), { clock, idleMs: 100, totalMs: 1000 }), isSlow)
      .then(() => {
        isOver = true
      })
    for (let i = 0; i < 30 && !isOver; i++) {
      push(' ')
      await settled()
      await clock.advance(50)
    }
    await refused
    assert.ok(clock.now() - new FakeClock().now() <= 1050)
    assert.equal(clock.waiting, 0)
  })
})
