/** What a model service does when all is not well. */
import type { Scenario } from './scenario.ts'

export const LIMITED_TIMES = 2

export const unauthorized: Scenario = () => ({
  kind: 'error',
  status: 401,
  message: 'This key has been revoked.',
})

/** Twice too much, and then not. */
export const limited: Scenario = ({ repeats }) =>
  repeats < LIMITED_TIMES
    ? { kind: 'error', status: 429, message: 'Too many requests.', retryAfterS: 1 }
    : { kind: 'text', text: 'Now there was room for me.' }

/** The connection ends in the middle of a sentence, every time or as often as it is told: `[[cut 1]]`. */
export const cut: Scenario = ({ repeats, words: [times = '1000'] }) => ({
  kind: repeats < Number(times) ? 'cut' : 'text',
  text: 'This sentence is long enough to be cut somewhere, and then nobody hears how it would have ended.',
})

/** A word now and then: `[[slow 50 20]]` is every 50 milliseconds, 20 words. */
export const slow: Scenario = ({ words: [everyMs = '100', count = '50'] }) => ({
  kind: 'text',
  text: Array.from({ length: Number(count) }, (_, index) => `word${index}`).join(' '),
  everyMs: Number(everyMs),
})
