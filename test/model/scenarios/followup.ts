/** Says what it was asked before: only a conversation that goes on knows. */
import type { Scenario } from './scenario.ts'

export const followup: Scenario = ({ earlier }) => {
  const before = earlier.at(-1)
  return {
    kind: 'text',
    text: before === undefined ? 'You have asked me nothing before.' : `Before this you asked: ${before}`,
  }
}
