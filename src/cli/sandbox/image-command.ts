/** The command that an image is made for. */
import { image as imageKind } from '../../bases/image.ts'
import { invalid, isAgentPodError } from '../../core/error.ts'
import type { CommandContext } from '../command.ts'

/** Gets the image if the server does not have it. */
export async function imageCommand(
  { client, person }: CommandContext,
  ref: string,
  provider: string | undefined,
): Promise<readonly string[]> {
  const pod = await client()
  const { command } = await pod.images.get(ref, { provider }).catch(async (error: unknown) => {
    if (!isAgentPodError(error, 'not_found')) throw error
    using progress = person.progress({})
    await pod.prepare(imageKind.name, (line) => progress.status(line), { image: ref, provider })
    return pod.images.get(ref, { provider })
  })
  if (command.length > 0) return command
  throw invalid(
    'words.missing',
    `the image ${ref} names no command`,
    `write one: agentpod run --no-project --image ${ref} -- COMMAND`,
  )
}
