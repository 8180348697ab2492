/** Recognises git's message about a full disk. */
import { AgentPodError } from '../../../core/error.ts'

/** Undefined if git failed for another reason. */
export function diskFull(stderr: string): AgentPodError | undefined {
  if (!/No space left on device|Disk quota exceeded/.test(stderr)) return undefined
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'disk.full',
    message: 'there is no space left on the disk',
    hint: 'nothing was changed; free some disk space and try again',
  })
}
