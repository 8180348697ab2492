import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { newPlaceholder } from '../secrets/placeholder.ts'
import { systemRandom } from '../util/random.ts'
import { fillRequest } from './secret-request.ts'
import { watchOf } from './secret-watch.ts'
import { secret } from './testing/secure-stage.ts'

describe('a request of a sandbox with many secrets', () => {
  const secrets = Array.from({ length: 64 }, (_, at) =>
    secret({}, { name: `K${at}`, placeholder: newPlaceholder(systemRandom) }),
  )
  const headers = Array.from({ length: 99 }, (_, at) => [`x-header-${at}`, 'v'.repeat(100)] as const)
  const all = { bound: secrets, all: secrets }

  test('is looked through for all of them at once, with what was made ready once', () => {
    assert.equal(watchOf(secrets), watchOf(secrets))
    assert.notEqual(watchOf([...secrets]), watchOf(secrets))
    const { placeholders } = watchOf(secrets)
    const rounds = 50
    const started = performance.now()
    for (let at = 0; at < rounds; at++)
      fillRequest({ method: 'GET', path: '/', headers }, { ...all, placeholders })
    // It takes a tenth of a millisecond; one search for each header and secret takes hundreds.
    assert.ok((performance.now() - started) / rounds < 20)
  })

  test('is told which of them is misplaced', () => {
    const { placeholders } = watchOf(secrets)
    for (const at of [0, 17, 63]) {
      const bad = [...headers, ['x-last', `is ${secrets[at]?.placeholder}`] as const]
      const refused = fillRequest({ method: 'GET', path: '/', headers: bad }, { ...all, placeholders })
      assert.ok('status' in refused && refused.reason === 'secret.misplaced')
      assert.match(refused.message, new RegExp(`placeholder of K${at} stands`))
    }
  })
})
