/** E2B's one way back from every kind of pause. */
import { isAgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import type { Principal } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Engine } from '../../engine/engine.ts'

export interface WakeRequest {
  readonly ttlMs: number
  /** False drops what is in memory, and boots from the files. */
  readonly memory: boolean
}

/** Another caller may pause or stop it between a look and a step; then it is looked at again. */
const MOST_LOOKS = 4

export async function wakeUp(
  engine: Engine,
  id: SandboxId,
  who: Principal,
  { ttlMs, memory }: WakeRequest,
): Promise<{ readonly sandbox: Sandbox; readonly wasPaused: boolean }> {
  for (let look = 1; ; look++) {
    try {
      switch (engine.get(id, who).state) {
        case 'pausing':
        case 'paused':
        case 'resuming':
          if (memory) return { sandbox: await engine.resume(id, who, { ttlMs }), wasPaused: true }
          await engine.stop(id, who)
          return { sandbox: await engine.start(id, who, { ttlMs }), wasPaused: true }
        case 'stopping':
        case 'stopped':
        case 'starting':
          return { sandbox: await engine.start(id, who, { ttlMs }), wasPaused: true }
        default:
          return { sandbox: await engine.extend(id, ttlMs, who, { onlyLonger: true }), wasPaused: false }
      }
    } catch (error) {
      if (look === MOST_LOOKS || !isAgentPodError(error, 'conflict') || error.reason !== 'sandbox.state')
        throw error
    }
  }
}
