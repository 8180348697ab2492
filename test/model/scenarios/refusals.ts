/** Failures of a model service. */
import type { Scenario } from './scenario.ts'

export const LIMITED_TIMES = 2

export const unauthorized: Scenario = () => ({
  kind: 'error',
  status: 401,
  message: 'This key has been revoked.',
})

/** Rate-limited twice, and then not. */
export const limited: Scenario = ({ repeats }) =>
  repeats < LIMITED_TIMES
    ? { kind: 'error', status: 429, message: 'Too many requests.', retryAfterS: 1 }
    : { kind: 'text', text: 'Now there was room for me.' }

/** The connection breaks in the middle of a sentence, every time or a given number of times: `[[cut 1]]`. */
export const cut: Scenario = ({ repeats, words: [times = '1000'] }) => ({
  kind: repeats < Number(times) ? 'cut' : 'text',
  text: 'This sentence is long enough to be cut somewhere, and then nobody hears how it would have ended.',
})

/** Slow words: `[[slow 50 20]]` sends 20 words, one every 50 milliseconds. */
export const slow: Scenario = ({ words: [everyMs = '100', count = '50'] }) => ({
  kind: 'text',
  text: Array.from({ length: Number(count) }, (_, index) => `word${index}`).join(' '),
  everyMs: Number(everyMs),
})
