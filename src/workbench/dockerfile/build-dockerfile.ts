/** Builds a Dockerfile of a directory on the server. */
import { readFileSync, statSync } from 'node:fs'
import { basename, relative, resolve } from 'node:path'
import type { BuiltDockerfile, DockerfileBuildOptions, DockerfileDescription } from '../../client/builds.ts'
import { AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import { prepareNetwork } from '../network/prepare-network.ts'
import type { Workbench } from '../workbench.ts'
import { packContext } from './build-context.ts'

export interface DockerfileBuild {
  /** Paths of the Dockerfile and of the directory that it copies from. */
  readonly file: string
  readonly directory: string
  readonly target?: string | undefined
  readonly args?: Readonly<Record<string, string>> | undefined
  readonly secrets?: Readonly<Record<string, string>> | undefined
  readonly tag?: string | undefined
  readonly useCache?: boolean | undefined
  readonly timeoutMs?: number | undefined
  /** Rules and presets besides those of the user's and the project's files. */
  readonly allow?: readonly string[] | undefined
  readonly allowPrivate?: readonly string[] | undefined
  readonly presets?: readonly string[] | undefined
}

const LARGEST_BYTES = 512 * 1024
/** Instructions that may read the context. */
const READS_CONTEXT = /^\s*(?:ONBUILD\s+)?(?:COPY|ADD|RUN\s[^\n]*--mount)\b/im

export async function buildDockerfile(
  bench: Workbench,
  build: DockerfileBuild,
  o: Omit<DockerfileBuildOptions, 'context'>,
): Promise<BuiltDockerfile> {
  const { file, directory, target, args, secrets, tag, useCache, timeoutMs } = build
  const content = readDockerfile(file)
  checkDirectory(directory)
  const { allow, allowPrivate, presets } = build
  const { network } = await prepareNetwork(bench, { allow, allowPrivate, presets }, { directory })
  const client = await bench.client()
  const dockerfile = {
    name: shownName(file),
    content,
    target,
    args: { ...args },
    secrets: { ...secrets },
    network: network.allow as DockerfileDescription['network'],
    deny: network.deny as DockerfileDescription['deny'],
    tag,
    useCache,
    timeoutMs,
  }
  const project = o.project ?? resolve(file)
  if (!READS_CONTEXT.test(content)) {
    try {
      return await client.builds.dockerfile(dockerfile, { ...o, project })
    } catch (error) {
      // An image below has ONBUILD instructions that copy.
      if (!isAgentPodError(error, 'invalid_argument') || error.reason !== 'dockerfile.context') throw error
    }
  }
  o.onProgress?.('packing the build context')
  using context = await packContext(directory, file)
  return await client.builds.dockerfile(
    { ...dockerfile, context: context.digest },
    { ...o, project, context: () => context.open() },
  )
}

function readDockerfile(file: string): string {
  try {
    if (statSync(file).size > LARGEST_BYTES)
      throw invalid('dockerfile.size', `${file} is larger than ${LARGEST_BYTES} bytes`)
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (isAgentPodError(error)) throw error
    throw new AgentPodError({
      code: 'not_found',
      reason: 'dockerfile.missing',
      message: `there is no Dockerfile ${file}`,
      hint: 'name it with -f FILE',
      cause: error,
    })
  }
}

function checkDirectory(directory: string): void {
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory()) return
  throw invalid(
    'dockerfile.context',
    `the build context ${directory} is not a directory`,
    'name the directory whose files the Dockerfile copies, as in `agentpod build -f Dockerfile .`',
  )
}

/** As the user wrote it, if it is below the working directory. */
function shownName(file: string): string {
  const near = relative(process.cwd(), resolve(file))
  return near === '' || near.startsWith('..') || near.length > 200 ? basename(file) : near
}
