import { type Random, randomWord } from '../util/random.ts'

const LENGTH = 40

/** Random, so that one sandbox cannot guess another's; letters and digits, so that every program takes it for a key. */
export function newPlaceholder(random: Random): string {
  return `agentpod${randomWord(random, LENGTH)}`
}
