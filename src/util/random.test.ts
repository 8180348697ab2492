import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SeededRandom } from '../testing/seeded-random.ts'
import { type Random, randomWord, systemRandom } from './random.ts'

test('a random word has its length, begins with a letter and has only letters and digits', () => {
  for (let length = 1; length <= 40; length++) {
    assert.match(randomWord(systemRandom, length), new RegExp(`^[a-z][a-z0-9]{${length - 1}}$`))
  }
})

test('every character of a random word is equally likely', () => {
  const random = new SeededRandom(7)
  const seen = new Map<string, number>()
  const words = 4000
  for (let i = 0; i < words; i++) {
    for (const character of randomWord(random, 10).slice(1)) {
      seen.set(character, (seen.get(character) ?? 0) + 1)
    }
  }
  assert.equal(seen.size, 36)
  const expected = (words * 9) / 36
  for (const [character, count] of seen) {
    assert.ok(Math.abs(count - expected) < expected * 0.2, `${character} came ${count} times`)
  }
})

test('random bytes that would favor the first letters are skipped', () => {
  const bytes = [255, 254, 234, 0, 252, 255, 35]
  const random: Random = { bytes: () => Uint8Array.from(bytes) }
  assert.equal(randomWord(random, 2), 'a9')
})

test('the same seed gives the same bytes and another seed others', () => {
  const words = [1, 1, 2].map((seed) => randomWord(new SeededRandom(seed), 16))
  assert.equal(words[0], words[1])
  assert.notEqual(words[0], words[2])
})
