import assert from 'node:assert/strict'
import { PassThrough, Readable } from 'node:stream'
import { describe, test } from 'node:test'
import { isAgentPodError } from '../../core/error.ts'
import { FakeClock, settled } from '../../testing/fake-clock.ts'
import { type BodyLimits, parseJsonBody } from './json-body.ts'

const NEVER: BodyLimits = { clock: new FakeClock(), idleMs: 1000, totalMs: 1000 }
const read = (text: string): Promise<unknown> => parseJsonBody(Readable.from([Buffer.from(text)]), NEVER)

const refuses = (body: string, reason: string): Promise<void> =>
  assert.rejects(read(body), (error) => isAgentPodError(error) && error.reason === reason)

describe('CP-15 a body', () => {
  test('a body of 64 levels is read, one of 65 is refused, and one of 100,000 does no harm', async () => {
    const deep = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels)
    await read(deep(64))
    await refuses(deep(65), 'body.too_deep')
    await refuses(deep(100_000), 'body.too_deep')
    await refuses(`${'{"a":'.repeat(65)}1${'}'.repeat(65)}`, 'body.too_deep')
  })

  for (const key of ['__proto__', 'constructor', 'prototype']) {
    test(`a body with the key ${key} is refused at any depth and in any spelling`, async () => {
      const escaped = [...key].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
      for (const spelled of [key, escaped]) {
        await refuses(`{"${spelled}":1}`, 'body.dangerous_key')
        await refuses(`{"a":[{"b":{"${spelled}":{}}}]}`, 'body.dangerous_key')
      }
      assert.deepEqual(await read(`{"a":"${key}"}`), { a: key }, 'a value may be that')
    })
  }

  test('a body with a duplicate key is refused, also when its spelling differs', async () => {
    await refuses('{"a":1,"a":2}', 'body.duplicate_key')
    await refuses('{"a":1,"\\u0061":2}', 'body.duplicate_key')
    await refuses('{"x":{"a":1,"b":{"a":1},"a":2}}', 'body.duplicate_key')
    assert.deepEqual(await read('{"a":{"a":1},"b":[{"a":1},{"a":"a"}]}'), {
      a: { a: 1 },
      b: [{ a: 1 }, { a: 'a' }],
    })
  })

  test('a body with an unpaired surrogate is refused, and a surrogate pair is accepted', async () => {
    await refuses('{"a":"\\ud800"}', 'body.malformed')
    await refuses('{"\\udfff":1}', 'body.malformed')
    assert.deepEqual(await read('{"a":"\\ud83d\\ude00"}'), { a: '😀' })
  })

  test('brackets and quotes inside strings do not count as depth of a body', async () => {
    const text = `${'[{"]},"'.repeat(100)}\\`
    assert.deepEqual(await read(JSON.stringify({ a: text, b: [text] })), {
      a: text,
      b: [text],
    })
  })

  test('a body that is not UTF-8 is refused', async () => {
    for (const bytes of ['NaN', 'Infinity', '{a:1}', '01', '"\t"', "{'a':1}", '{"a":1,}', '\ufeff{}x'])
      await refuses(bytes, 'body.malformed')
  })
})

describe('CP-16 a body', () => {
  function slow(): { body: Readable; push: (text: string) => void } {
    const body = new PassThrough()
    return { body, push: (text) => body.write(text) }
  }
  const isSlow = (error: unknown): boolean =>
    isAgentPodError(error, 'deadline_exceeded') && error.reason === 'body.slow'

  const isCut = (error: unknown): boolean =>
    isAgentPodError(error, 'unavailable') && error.reason === 'body.cut'

  test('a body that stops arriving is given up', async () => {
    const clock = new FakeClock()
    const { body, push } = slow()
    const refused = assert.rejects(parseJsonBody(body, { clock, idleMs: 100, totalMs: 1000 }), isSlow)
    push('{')
    await settled()
    await clock.advance(99)
    push('"a"')
    await settled()
    await clock.advance(101)
    await refused
    assert.equal(clock.waiting, 0)
  })

  test('a body that arrives too slowly is given up', async () => {
    const clock = new FakeClock()
    const { body, push } = slow()
    let isOver = false
    const refused = assert
      .rejects(parseJsonBody(body, { clock, idleMs: 100, totalMs: 1000 }), isSlow)
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

  test('a body whose connection is closed is given up at once', async () => {
    for (const end of [
      (body: Readable) => body.destroy(),
      (body: Readable) => body.destroy(new Error('reset')),
    ]) {
      const { body, push } = slow()
      const refused = assert.rejects(parseJsonBody(body, NEVER), isCut)
      push('{')
      await settled()
      end(body)
      await refused
      await assert.rejects(parseJsonBody(body, NEVER), isCut)
    }
  })
})
