/** Maps AgentPod's states to E2B's two. */
import type { State } from '../../core/lifecycle.ts'
import type { Sandbox } from '../../core/sandbox.ts'

export type E2bState = 'running' | 'paused'

/**
 * For E2B a stopped sandbox is one that was paused without memory. A change of state shows when it is
 * complete.
 */
const STATES: Readonly<Partial<Record<State, E2bState>>> = {
  running: 'running',
  pausing: 'running',
  paused: 'paused',
  resuming: 'paused',
  stopping: 'running',
  stopped: 'paused',
  starting: 'paused',
}

/** Undefined for a sandbox that E2B's clients do not see: not created yet, or ended. */
export function e2bStateOf({ state }: Pick<Sandbox, 'state'>): E2bState | undefined {
  return STATES[state]
}
