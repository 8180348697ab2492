/** The states of a sandbox as one table. Only `engine/lifecycle/sandbox-registry.ts` writes a state. */
import { AgentPodError } from './error.ts'

export const STATES = [
  'creating',
  'running',
  'pausing',
  'paused',
  'resuming',
  'stopping',
  'stopped',
  'starting',
  'destroying',
  'destroyed',
  'failed',
] as const

export type State = (typeof STATES)[number]

/**
 * What can happen to a sandbox: an operation starts (`create`), it finishes (`created`), or the sandbox is
 * lost.
 */
export type LifecycleEvent =
  | 'created'
  | 'pause'
  | 'paused'
  | 'resume'
  | 'resumed'
  | 'stop'
  | 'stopped'
  | 'start'
  | 'started'
  | 'destroy'
  | 'destroyed'
  | 'fail'

const TABLE: Record<State, Partial<Record<LifecycleEvent, State>>> = {
  creating: { created: 'running', destroy: 'destroying', fail: 'failed' },
  running: { pause: 'pausing', stop: 'stopping', destroy: 'destroying', fail: 'failed' },
  pausing: { paused: 'paused', resumed: 'running', stop: 'stopping', destroy: 'destroying', fail: 'failed' },
  paused: { resume: 'resuming', stop: 'stopping', destroy: 'destroying', fail: 'failed' },
  resuming: { resumed: 'running', paused: 'paused', stop: 'stopping', destroy: 'destroying', fail: 'failed' },
  stopping: { stopped: 'stopped', destroy: 'destroying', fail: 'failed' },
  stopped: { start: 'starting', destroy: 'destroying', fail: 'failed' },
  starting: { started: 'running', stopped: 'stopped', destroy: 'destroying', fail: 'failed' },
  destroying: { destroyed: 'destroyed', destroy: 'destroying' },
  failed: { destroy: 'destroying' },
  destroyed: {},
}

const VERBS = ['pause', 'resume', 'stop', 'start', 'destroy'] as const

/** The next state, or `conflict` with the state and the allowed operations. */
export function next(state: State, event: LifecycleEvent): State {
  const to = TABLE[state][event]
  if (to !== undefined) return to
  const allowed = VERBS.filter((verb) => TABLE[state][verb] !== undefined)
  throw new AgentPodError({
    code: 'conflict',
    reason: 'sandbox.state',
    message: `cannot ${event} a sandbox that is ${state}`,
    hint: allowed.length > 0 ? `possible now: ${allowed.join(', ')}` : undefined,
    details: { state, allowed },
  })
}

/** Whether a sandbox has ended and uses nothing at the provider. */
export function isEnded(state: State): boolean {
  return state === 'destroyed'
}
