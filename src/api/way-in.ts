/** Who may wake a sandbox that is paused or stopped, and how a request gets in. */
import type { IncomingMessage } from 'node:http'
import { isAgentPodError } from '../core/error.ts'
import type { Principal } from '../core/principal.ts'
import type { Live } from '../engine/context.ts'
import type { Engine } from '../engine/engine.ts'

/** `never`: a client that comes back for a stream must not start again what somebody stopped. */
export const WAKE_HEADER = 'agentpod-wake'

/**
 * The way into a sandbox that runs, at once: this is the hot path of every exec. Undefined for one that may be woken, or that something
 * is under way with; every other one is the engine's error, before anything is asked of the inside.
 */
export function lookIn(
  engine: Engine,
  ref: string,
  who: Principal,
  request: IncomingMessage,
): Live | undefined {
  try {
    return engine.live(ref, who)
  } catch (error) {
    if (!isAgentPodError(error, 'conflict') || error.reason !== 'sandbox.state') throw error
    const { state, spec } = engine.get(ref, who)
    const isAsleep = state === 'paused' || state === 'stopped'
    if (isAsleep && !(spec.lifetime.autoResume && mayWake(request))) throw error
    return undefined
  }
}

/** The way in after whatever is under way, woken where that may be. */
export function wake(engine: Engine, ref: string, who: Principal, request: IncomingMessage): Promise<Live> {
  return engine.reach(ref, who, { wake: mayWake(request) })
}

/** Asking whether it runs changes nothing. */
function mayWake({ url, headers }: IncomingMessage): boolean {
  return headers[WAKE_HEADER] !== 'never' && url?.split('?', 1)[0] !== '/health'
}
