/** The files of a project that services of its compose file get, and what every service must have to run. */
import { realpathSync } from 'node:fs'
import type { ComposeProject, ComposeService } from '../../config/compose/model.ts'
import { AgentPodError, invalid } from '../../core/error.ts'
import { readListed } from '../../util/file/read-inside.ts'
import { shellWord } from '../../util/shell/shell-word.ts'

export interface GroupProject {
  readonly directory: string
  readonly name: string
  /** Every file of the project, relative to it. */
  readonly files: readonly string[]
}

const LARGEST_FILE = 64 * 1024 * 1024

/** Fails before anything is built or started, if a service other than the project's own cannot run. */
export function checkMembers(
  project: GroupProject,
  { compose: { services }, main }: { readonly compose: ComposeProject; readonly main: string },
): void {
  for (const service of services) {
    if (service.name === main) continue
    if (service.image === undefined || service.build) throw notBuilt(service)
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

function notBuilt(service: ComposeService): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'compose.build',
    message: `${whereIs(service)}: service ${service.name} is built from the project, and only one such service runs`,
    hint: `build it with \`agentpod build\` and name its image, choose it with --service ${shellWord(service.name)}, or use --no-compose`,
  })
}
