/** E2B's connect: resumes or starts a sandbox, however it was paused. */
import { isAgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import type { Principal } from '../../core/principal.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Engine } from '../../engine/engine.ts'

export interface WakeRequest {
  readonly ttlMs: number
  /** False drops the memory and boots from the files. */
  readonly memory: boolean
}

/** Another caller may change the state between the check and the call; then the state is checked again. */
const MOST_LOOKS = 4

export async function wakeUp(
  engine: Engine,
  id: SandboxId,
  who: Principal,
  { ttlMs, memory }: WakeRequest,
): Promise<{ readonly sandbox: Sandbox; readonly wasPaused: boolean }> {
  for (let look = 1; ; look++) {
    try {
      switch (engine.sandboxes.get(id, who).state) {
        case 'pausing':
        case 'paused':
        case 'resuming':
          if (memory) return { sandbox: await engine.sandboxes.resume(id, who, { ttlMs }), wasPaused: true }
          await engine.sandboxes.stop(id, who)
          return { sandbox: await engine.sandboxes.start(id, who, { ttlMs }), wasPaused: true }
        case 'stopping':
        case 'stopped':
        case 'starting':
          return { sandbox: await engine.sandboxes.start(id, who, { ttlMs }), wasPaused: true }
        default:
          return {
            sandbox: await engine.sandboxes.extend(id, ttlMs, who, { onlyLonger: true }),
            wasPaused: false,
          }
      }
    } catch (error) {
      if (look === MOST_LOOKS || !isAgentPodError(error, 'conflict') || error.reason !== 'sandbox.state')
        throw error
    }
  }
}
