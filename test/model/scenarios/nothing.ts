/** Only talks. */
import type { Scenario } from './scenario.ts'

export const nothing: Scenario = () => ({ kind: 'text', text: 'There is nothing to do here.' })
