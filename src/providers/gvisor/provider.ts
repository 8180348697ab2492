/**
 * Sandboxes on gVisor's kernel, which runs in user space and answers their system calls itself. podhost
 * starts them with runsc. Layers, images, network rules and guest are those of the provider of this machine.
 */
import { AgentPodError } from '../../core/error.ts'
import type { Provider } from '../../core/provider.ts'
import { localProvider, type Runtime } from '../local/driver.ts'
import type { LocalImages } from '../local/images/images.ts'
import type { Podhost } from '../local/podhost.ts'

const RUNTIME: Runtime = {
  name: 'gvisor',
  // podd sets it inside, where nothing can raise it again.
  alwaysEnforced: ['files'],
  // The host counts gVisor's own processes.
  neverEnforced: ['pids'],
  // gVisor keeps what it has read of a file, as if no other program wrote to it. Two sandboxes with one
  // volume would not see each other's changes.
  volumes: false,
  savesMemory: true,
  pausesToDisk: true,
  runsDocker: true,
  notes: [
    'limits: processes are counted on the host, where gVisor has about two for each one inside',
    'limits: a sandbox that exceeds its memory limit ends as a whole',
  ],
  check({ gvisor: { available, reason, hint } }) {
    if (available) return
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'gvisor.unavailable',
      message: reason ?? 'gVisor is not available',
      ...(hint !== undefined && { hint }),
    })
  },
}

export function gvisor(podhost: Podhost, exchange: string, images?: LocalImages): Provider {
  return localProvider({ name: 'gvisor', isolation: 'gvisor', runtime: RUNTIME, podhost, exchange, images })
}
