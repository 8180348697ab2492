import { type Random, randomWord } from '../util/random.ts'

const LENGTH = 40

/**
 * Random, so that one sandbox cannot guess another's. Letters and digits only, so that programs accept it as
 * a key.
 */
export function newPlaceholder(random: Random): string {
  return `agentpod${randomWord(random, LENGTH)}`
}
