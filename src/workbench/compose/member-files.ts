/** The files of a project that services of its compose file get, and what every service must have to run. */
import { realpathSync } from 'node:fs'
import type { ComposeProject, ComposeService } from '../../config/compose/model.ts'
import { serviceDockerfile } from '../../config/compose/service-dockerfile.ts'
import type { FileTree } from '../../config/file-tree.ts'
import { AgentPodError, invalid } from '../../core/error.ts'
import { readListed } from '../../util/file/read-inside.ts'
import { treeOf } from '../environment/detect-project.ts'

export interface GroupProject {
  readonly directory: string
  readonly name: string
  /** Every file of the project, relative to it. */
  readonly files: readonly string[]
}

const LARGEST_FILE = 64 * 1024 * 1024

/** Fails before anything is built or started, if a service cannot run. */
export function checkMembers(
  project: GroupProject,
  { compose: { services }, main }: { readonly compose: ComposeProject; readonly main: string },
): void {
  const tree = treeOf(project)
  for (const service of services) {
    const dockerfile = serviceDockerfile(tree, service)
    if (dockerfile && tree.read(dockerfile.file) === undefined)
      throw noDockerfile(service, dockerfile.file, tree)
    if (service.name === main) continue
    const mounted = service.mounts.flatMap((one) => (one.kind === 'bind' ? [one.source] : []))
    const files = [
      ...service.files.flatMap(({ file }) => (file === undefined ? [] : [file])),
      ...mounted.filter((source) => project.files.includes(source)),
    ]
    for (const file of files) memberFile(project, service, file)
  }
}

/**
 * SECURITY: CF-05. Only a file that every sandbox of the project gets: not `.git`, not a file that git
 * ignores, and not a link to such a file.
 */
export function memberFile(
  { directory, files }: GroupProject,
  service: ComposeService,
  file: string,
): Buffer {
  const isListed = (path: string): boolean => files.includes(path)
  const found = readListed(realpathSync(directory), file, { isListed, mostBytes: LARGEST_FILE })
  if (found) return found.data
  throw invalid(
    'compose.file',
    `${whereIs(service)}: service ${service.name}: ${JSON.stringify(file)} is not a file that sandboxes of the project get`,
    'a file that git ignores is never copied into a sandbox, nor through a link; --no-compose runs without the compose file',
  )
}

export function whereIs({ file, line }: ComposeService): string {
  return line === undefined ? file : `${file}:${line}`
}

function noDockerfile(service: ComposeService, file: string, tree: FileTree): AgentPodError {
  const isThere = tree.has(file) || tree.isLeftOut(file)
  return new AgentPodError({
    code: isThere ? 'invalid_argument' : 'not_found',
    reason: 'compose.build',
    message: `${whereIs(service)}: service ${service.name}: ${isThere ? `${JSON.stringify(file)} is not a file that sandboxes of the project get` : `there is no Dockerfile ${JSON.stringify(file)}`}`,
    hint: isThere
      ? 'a Dockerfile must be a text file that git does not ignore, also behind a link; --no-compose runs without the compose file'
      : 'correct build: of the service; --no-compose runs without the compose file',
  })
}
