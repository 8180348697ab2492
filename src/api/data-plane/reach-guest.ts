/**
 * Finds the guest of a sandbox for a request, and wakes the sandbox if it is paused or stopped and may be
 * woken.
 */
import type { IncomingMessage } from 'node:http'
import { isAgentPodError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import type { GuestConnection } from '../../engine/context.ts'
import type { Engine } from '../../engine/engine.ts'

/** `never`: a client that reconnects to a stream must not restart a sandbox that was stopped. */
export const WAKE_HEADER = 'agentpod-wake'

export interface FoundGuest {
  /** The connection to the guest: at once where it runs, otherwise after it was woken. */
  reach(): GuestConnection | Promise<GuestConnection>
}

/**
 * Finds the guest without changing anything, and throws the engine's error if the sandbox does not run and
 * may not be woken. This is the hot path of every exec: for a running sandbox it only reads memory.
 *
 * SECURITY: call `reach` only after the request has proven that it may enter, so that nothing is woken
 * before.
 */
export function findGuest(engine: Engine, ref: string, who: Principal, request: IncomingMessage): FoundGuest {
  const running = runningGuest(engine, ref, who, request)
  return { reach: () => running ?? engine.guests.wake(ref, who, { wake: mayWake(request) }) }
}

/** Undefined for a sandbox that may be woken, or that is changing its state at the moment. */
function runningGuest(
  engine: Engine,
  ref: string,
  who: Principal,
  request: IncomingMessage,
): GuestConnection | undefined {
  try {
    return engine.guests.connection(ref, who)
  } catch (error) {
    if (!isAgentPodError(error, 'conflict') || error.reason !== 'sandbox.state') throw error
    const { state, spec } = engine.sandboxes.get(ref, who)
    const isAsleep = state === 'paused' || state === 'stopped'
    if (isAsleep && !(spec.lifetime.autoResume && mayWake(request))) throw error
    return undefined
  }
}

/** A health check asks whether the sandbox runs, and must not start it. */
function mayWake({ url, headers }: IncomingMessage): boolean {
  return headers[WAKE_HEADER] !== 'never' && url?.split('?', 1)[0] !== '/health'
}
