/** The source of randomness, so that simulations can be replayed from a seed. */
import { randomBytes } from 'node:crypto'

export interface Random {
  bytes(count: number): Uint8Array
}

export const systemRandom: Random = { bytes: (count) => randomBytes(count) }

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789'

/** A random word of `length` lowercase letters and digits, each equally likely; it begins with a letter. */
export function randomWord(random: Random, length: number): string {
  let word = ''
  while (word.length < length) {
    for (const byte of random.bytes(length * 2)) {
      const size = word.length === 0 ? 26 : 36
      // Bytes past the last whole multiple would favor the first letters.
      if (byte >= 256 - (256 % size)) continue
      word += ALPHABET[byte % size]
      if (word.length === length) break
    }
  }
  return word
}
