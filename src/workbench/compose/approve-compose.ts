/** The question whether the services of a compose file may run. */
import { serviceDockerfile } from '../../config/compose/service-dockerfile.ts'
import type { FileTree } from '../../config/file-tree.ts'
import { NO_PRIVILEGES } from '../../config/grants/privileges.ts'
import { type FileRequest, isFileApproved } from '../network/prepare-network.ts'
import type { Workbench } from '../workbench.ts'
import type { ProjectCompose } from './project-compose.ts'

/**
 * SECURITY: CF-02. Every image and Dockerfile needs the same approval as `image` and `dockerfile` in
 * agentpod.toml: one answer for all.
 */
export function composeRequest(
  { compose: { files, services } }: ProjectCompose,
  tree: Pick<FileTree, 'read'>,
): FileRequest {
  const built = services.flatMap((service) => serviceDockerfile(tree, service) ?? [])
  const named = services.flatMap(({ image, build }) => (image === undefined || build ? [] : [image]))
  const images = sorted([...named, ...built.flatMap(({ images: own }) => own)])
  const dockerfiles = sorted(built.map(({ file }) => file))
  return {
    file: files.join(', '),
    privileges: {
      ...NO_PRIVILEGES,
      ...(images.length > 0 && { images }),
      ...(dockerfiles.length > 0 && { dockerfiles }),
    },
  }
}

function sorted(names: readonly string[]): string[] {
  return [...new Set(names)].sort()
}

/** If not, the project's sandbox runs without the compose file. */
export async function isComposeApproved(
  bench: Workbench,
  directory: string,
  { compose, tree }: { readonly compose: ProjectCompose; readonly tree: Pick<FileTree, 'read'> },
): Promise<boolean> {
  const request = composeRequest(compose, tree)
  if (await isFileApproved(bench, directory, request)) return true
  bench.person.notice({
    kind: 'note',
    text: `the services of ${request.file} do not run, and the file is not used: it is not approved`,
  })
  return false
}
