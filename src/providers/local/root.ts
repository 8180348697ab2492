/** What podhost builds a root from: this machine's tools or layers, lowest first, and snapshots on top. */
import { AgentPodError } from '../../core/error.ts'
import type { RootRef } from '../../core/provider.ts'

export const HOST_ROOT: RootRef = { kind: 'host' }

export function layersRoot(layers: readonly string[]): RootRef {
  return { kind: 'layers', layers }
}

export function layersOf({ kind, layers }: RootRef): readonly string[] {
  if (kind !== 'layers') return []
  if (Array.isArray(layers) && layers.every((one) => typeof one === 'string')) return layers
  throw new AgentPodError({
    code: 'data_loss',
    reason: 'root.malformed',
    message: 'the root has no layers',
  })
}

/** In podhost's form: empty lists are left out, and an empty root means this machine's tools. */
export function rootArgs({ over, ...base }: RootRef): Record<string, unknown> {
  return { ...HOST_ROOT, ...base, ...(over && over.length > 0 && { over }) }
}

/** In podhost's form: the kernel of this machine is not named. */
export function runtimeArgs(runtime: string): { runtime?: string } {
  return runtime === '' ? {} : { runtime }
}
