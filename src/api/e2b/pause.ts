/** E2B's pause: on disk where the provider can, as E2B does it, and frozen elsewhere. */
import { isAgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import type { Principal } from '../../core/principal.ts'
import type { Engine } from '../../engine/engine.ts'

/** A program that cannot be saved does not make the pause fail: the sandbox is frozen instead. */
export async function pauseWithMemory(engine: Engine, id: SandboxId, who: Principal): Promise<void> {
  if (engine.sandboxes.canPauseToDisk(id, who)) {
    try {
      await engine.sandboxes.pause(id, who, { toDisk: true })
      return
    } catch (error) {
      if (!isAgentPodError(error, 'failed_precondition')) throw error
    }
  }
  await engine.sandboxes.pause(id, who)
}
