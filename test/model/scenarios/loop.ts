/** Never ends. */
import { stepFor } from '../deed.ts'
import type { Scenario } from './scenario.ts'

export const loop: Scenario = ({ conversation, results, directory }) =>
  stepFor({ do: 'run', command: `echo ${results.length}` }, 'Once more.', conversation.tools, directory)
