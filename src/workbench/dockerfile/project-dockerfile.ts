/** Builds the Dockerfile that a project's file names, and stores its image under a name of the project. */
import { realpathSync, statSync } from 'node:fs'
import { join, relative } from 'node:path'
import type { BaseDockerfile } from '../../bases/base-kind.ts'
import type { BuiltDockerfile, DockerfileBuildOptions, DockerfileDescription } from '../../client/builds.ts'
import { packContext, readIgnore } from '../../client/dockerfile/build-context.ts'
import { sendDockerfile } from '../../client/dockerfile/send-dockerfile.ts'
import { memberName } from '../../config/compose/member-plan.ts'
import { PROJECT_FILE } from '../../config/config-files.ts'
import type { Evidence } from '../../config/evidence.ts'
import type { NetworkWish } from '../../config/network/network-table.ts'
import { LARGEST_DOCKERFILE } from '../../core/build/dockerfile.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { readListed } from '../../util/file/read-inside.ts'
import type { ProjectFiles } from '../environment/detect-project.ts'
import { prepareNetwork } from '../network/prepare-network.ts'
import { nameOnMachine } from '../project/project-name.ts'
import type { Workbench } from '../workbench.ts'

export interface ProjectDockerfile {
  readonly dockerfile: BaseDockerfile
  /** What the project may reach. */
  readonly wish: NetworkWish
  readonly timeoutMs?: number | undefined
  /** The line of the file that names the Dockerfile. */
  readonly evidence: Evidence
  /** The service of a compose file that it is for; left out for the project itself. */
  readonly service?: string | undefined
}

const LARGEST_IGNORE = 256 * 1024

/** The host cannot exist, so the image is never looked for in a registry. */
export function projectImage(
  project: Pick<ProjectFiles, 'directory' | 'name'>,
  service?: string | undefined,
): string {
  const own = `dockerfile.invalid/${nameOnMachine(project)}`
  return service === undefined ? own : `${own}/${memberName(service)}`
}

/**
 * SECURITY: CF-04. The Dockerfile and its context are files of the project as its sandboxes get them: no link
 * leads out, and what git ignores stays out. The build gets no secrets, and only the approved images.
 */
export async function buildProjectDockerfile(
  bench: Workbench,
  project: ProjectFiles,
  asked: ProjectDockerfile,
  o: Omit<DockerfileBuildOptions, 'context'>,
): Promise<BuiltDockerfile> {
  const { dockerfile, wish, timeoutMs } = asked
  const { file, target, args, images } = dockerfile
  const root = realpathSync(project.directory)
  const listed = new Set(project.files)
  const read = (path: string, mostBytes: number): string | undefined =>
    readListed(root, path, { isListed: (one) => listed.has(one), mostBytes })?.data.toString('utf8')
  const content = read(file, LARGEST_DOCKERFILE)
  if (content === undefined) throw missing(root, asked)
  const directory = contextOf(root, asked)
  const { network } = await prepareNetwork(bench, {}, { wish: { ...wish, secrets: [] } })
  const client = await bench.client()
  try {
    return await sendDockerfile(
      client.builds,
      {
        name: file,
        content,
        target,
        args: { ...args },
        images: [...images],
        network: network.allow as DockerfileDescription['network'],
        deny: network.deny as DockerfileDescription['deny'],
        tag: projectImage(project, asked.service),
        timeoutMs,
      },
      () => {
        const ignore = readIgnore(directory, join(root, file), (path) =>
          read(relative(root, path), LARGEST_IGNORE),
        )
        return packContext({ directory, ignore, only: filesBelow(project.files, dockerfile.context) })
      },
      // What a build has changed since the last one is remembered for each of them.
      { ...o, project: asked.service === undefined ? project.directory : join(root, file) },
    )
  } catch (error) {
    throw isAgentPodError(error) ? withProjectHint(error, file) : error
  }
}

function filesBelow(files: readonly string[], context: string): string[] {
  const prefix = context === '' ? '' : `${context}/`
  return files.filter((path) => path.startsWith(prefix)).map((path) => path.slice(prefix.length))
}

function contextOf(root: string, { dockerfile: { context }, evidence }: ProjectDockerfile): string {
  const directory = join(root, context)
  const isReal =
    statSync(directory, { throwIfNoEntry: false })?.isDirectory() && realpathSync(directory) === directory
  if (isReal) return directory
  throw new AgentPodError({
    code: 'invalid_argument',
    reason: 'dockerfile.context',
    message: `${placeOf(evidence)}: the build context ${context} is not a directory of the project`,
    hint: 'write the path of a directory below the project, not of a link',
  })
}

function missing(root: string, { dockerfile: { file }, evidence }: ProjectDockerfile): AgentPodError {
  const isThere = statSync(join(root, file), { throwIfNoEntry: false }) !== undefined
  return new AgentPodError({
    code: isThere ? 'invalid_argument' : 'not_found',
    reason: 'dockerfile.missing',
    message: isThere
      ? `${placeOf(evidence)}: ${file} is not a regular file of the project, git ignores it, or it is larger than ${LARGEST_DOCKERFILE} bytes`
      : `${placeOf(evidence)}: there is no Dockerfile ${file}`,
    hint: isThere
      ? 'it must be a regular file of at most that size that git does not ignore, also behind a link'
      : evidence.file === PROJECT_FILE
        ? 'dockerfile under [environment] is the path of a file below the project'
        : 'correct the path, or name another base under [environment] in agentpod.toml',
  })
}

function placeOf({ file, line }: Evidence): string {
  return line === undefined ? file : `${file}:${line}`
}

/** Hints of the server name options of `agentpod build -f`, which this build does not have. */
function withProjectHint(error: AgentPodError, file: string): AgentPodError {
  const hint = HINTS[error.reason]?.(file)
  if (hint === undefined) return error
  const { code, reason, message, details } = error
  return new AgentPodError({ code, reason, message, hint, details, cause: error })
}

const HINTS: Readonly<Record<string, (file: string) => string>> = {
  'build.secret': (file) =>
    `a project's Dockerfile gets no secrets: \`agentpod build -f ${file} --secret id=ID,src=FILE -t NAME .\` builds it, and image = "NAME" uses it`,
  'image.tag': (file) =>
    `only an admin key builds a project's Dockerfile: ask an admin for \`agentpod build -f ${file} -t NAME .\`, and set image = "NAME"`,
  'dockerfile.image_refused': () =>
    'write its name in FROM or --from, with no other variables than those of ARG before the first FROM',
}
