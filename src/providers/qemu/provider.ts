/**
 * Sandboxes that are virtual machines, each with a kernel of its own. podhost starts them with QEMU. Layers,
 * images, network rules and guest are those of the provider of this machine.
 */
import { AgentPodError } from '../../core/error.ts'
import type { Provider } from '../../core/provider.ts'
import { localProvider, type Runtime } from '../local/driver.ts'
import type { LocalImages } from '../local/images/images.ts'
import type { Podhost } from '../local/podhost.ts'

const RUNTIME: Runtime = {
  name: 'qemu',
  // The machine's own kernel enforces them, and the size of its disk.
  alwaysEnforced: ['memory', 'pids', 'files', 'disk'],
  // A machine has no swap space.
  neverEnforced: ['swap'],
  volumes: false,
  host: false,
  rootMounts: false,
  savesMemory: true,
  pausesToDisk: true,
  runsDocker: true,
  notes: [
    'the tools of this machine cannot be the base: sandboxes begin with Debian, or with an image',
    'snapshots cannot be exported, and volumes and other roots cannot be mounted',
  ],
  check({ qemu: { available, reason, hint } }) {
    if (available) return
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'qemu.unavailable',
      message: reason ?? 'virtual machines are not available',
      ...(hint !== undefined && { hint }),
    })
  },
}

export function qemu(podhost: Podhost, exchange: string, images?: LocalImages): Provider {
  return localProvider({ name: 'qemu', isolation: 'vm', runtime: RUNTIME, podhost, exchange, images })
}
