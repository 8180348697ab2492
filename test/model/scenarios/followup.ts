/** Repeats the earlier prompts: only a resumed conversation has them. */
import type { Scenario } from './scenario.ts'

export const followup: Scenario = ({ earlier }) => {
  const before = earlier.at(-1)
  return {
    kind: 'text',
    text: before === undefined ? 'You have asked me nothing before.' : `Before this you asked: ${before}`,
  }
}
