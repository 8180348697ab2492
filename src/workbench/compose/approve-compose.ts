/** The question whether the services of a compose file may run. */
import { NO_PRIVILEGES } from '../../config/grants/privileges.ts'
import { type FileRequest, isFileApproved } from '../network/prepare-network.ts'
import type { Workbench } from '../workbench.ts'
import type { ProjectCompose } from './project-compose.ts'

/** SECURITY: CF-02. Every image needs the same approval as `image` in agentpod.toml: one answer for all. */
export function composeRequest({ compose: { files, services } }: ProjectCompose): FileRequest {
  const images = services.flatMap(({ image, build }) => (image === undefined || build ? [] : [image]))
  return {
    file: files.join(', '),
    privileges: { ...NO_PRIVILEGES, ...(images.length > 0 && { images: [...new Set(images)].sort() }) },
  }
}

/** If not, the project's sandbox runs without the compose file. */
export async function isComposeApproved(
  bench: Workbench,
  directory: string,
  compose: ProjectCompose,
): Promise<boolean> {
  const request = composeRequest(compose)
  if (await isFileApproved(bench, directory, request)) return true
  bench.person.notice({
    kind: 'note',
    text: `the services of ${request.file} do not run: they are not approved`,
  })
  return false
}
