/** Whether the compose file of a project decides about its sandbox. */
import { composeFilesIn } from '../../config/compose/compose-project.ts'
import type { FileTree } from '../../config/file-tree.ts'
import { usesDevcontainer } from '../devcontainer/uses-devcontainer.ts'
import { hasProjectFile } from '../environment/project-file.ts'
import type { SandboxRequest } from '../environment/sandbox-request.ts'
import { type ProjectCompose, projectCompose, refuseUnfit, type SayNote } from './project-compose.ts'

export type ComposeChoice = Pick<
  SandboxRequest,
  'base' | 'image' | 'profile' | 'devcontainer' | 'isWithoutDevcontainer' | 'compose'
>

export interface ComposeCandidate {
  readonly directory: string
  readonly tree: FileTree
}

/**
 * It decides if there is no agentpod.toml and no devcontainer, and no base is asked for. An option about the
 * file that would have no effect is refused, never ignored.
 */
export function usedCompose(
  { directory, tree }: ComposeCandidate,
  o: ComposeChoice,
  say: SayNote,
): ProjectCompose | undefined {
  const { compose = {} } = o
  const unless = (why: string, hint: string): undefined => refuseUnfit(compose, why, hint)
  if (compose.isOff) return unless('--no-compose leaves the compose file out', 'leave one of them out')
  // The options are for its own compose files.
  if (o.devcontainer !== undefined || usesDevcontainer(tree, o)) return undefined
  for (const option of ['base', 'image', 'profile'] as const)
    if (o[option] !== undefined)
      return unless(`--${option} decides what the sandbox is`, 'leave one of them out')
  if (hasProjectFile(directory))
    return unless(
      'agentpod.toml decides what the sandbox is',
      'write the services under [services] in agentpod.toml, or leave the option out',
    )
  if (composeFilesIn('', (file) => tree.has(file)).length === 0)
    return unless(
      tree.isLeftOut('compose.yaml') ? 'git ignores compose.yaml' : 'there is no compose.yaml here',
      'change to the directory of the compose file, or leave the option out',
    )
  const found = projectCompose(tree, compose, say)
  return (
    found ?? unless('no service of the compose file is the project itself', 'name it with --service NAME')
  )
}
