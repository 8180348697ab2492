import type { AgentPod } from '../../client/client.ts'
import type { MemberImage } from '../../config/compose/member-plan.ts'
import { isAgentPodError } from '../../core/error.ts'

/** The settings of an image, which is pulled if it is missing. */
export async function imageInfo(
  pod: AgentPod,
  ref: string,
  o: { readonly provider?: string | undefined; readonly say?: (line: string) => void },
): Promise<MemberImage> {
  const { provider, say } = o
  const info = await pod.images.get(ref, { provider }).catch((error: unknown) => {
    if (!isAgentPodError(error, 'not_found')) throw error
    return pod.images.pull(ref, { provider, ...(say && { onProgress: say }) })
  })
  const { entrypoint, command, user, workdir } = info
  return {
    entrypoint,
    command: command.slice(entrypoint.length),
    user: user ?? undefined,
    workdir: workdir ?? undefined,
  }
}
