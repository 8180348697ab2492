/** Reports a build of the client to a person. */
import type { BuildOptions } from '../../client/builds.ts'
import type { WorkProgress } from '../ask.ts'

export function buildCallbacks(
  progress: WorkProgress,
): Pick<BuildOptions, 'onProgress' | 'onStep' | 'onOutput'> {
  return {
    onProgress: (text) => progress.status(text),
    onStep: (step) => progress.step(step),
    onOutput: (step, data) => progress.output(step, data),
  }
}
