/** Our states as E2B's two. */
import type { State } from '../../core/lifecycle.ts'
import type { Sandbox } from '../../core/sandbox.ts'

export type E2bState = 'running' | 'paused'

/** A sandbox that is stopped is to E2B one that was paused without its memory. What is under way is told when it is done. */
const STATES: Readonly<Partial<Record<State, E2bState>>> = {
  running: 'running',
  pausing: 'running',
  paused: 'paused',
  resuming: 'paused',
  stopping: 'running',
  stopped: 'paused',
  starting: 'paused',
}

/** Undefined for one that E2B's clients do not see: not made yet, or over. */
export function stateOf({ state }: Pick<Sandbox, 'state'>): E2bState | undefined {
  return STATES[state]
}
