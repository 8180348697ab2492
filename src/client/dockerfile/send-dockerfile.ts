/** Sends a Dockerfile to the server, with its build context if it reads one. */
import { readFileSync, statSync } from 'node:fs'
import { LARGEST_DOCKERFILE } from '../../core/build/dockerfile.ts'
import { AgentPodError, invalid, isAgentPodError } from '../../core/error.ts'
import type { Builds, BuiltDockerfile, DockerfileBuildOptions, DockerfileDescription } from '../builds.ts'
import type { PackedContext } from './build-context.ts'

/** Instructions that may read the context. */
const READS_CONTEXT = /^\s*(?:ONBUILD\s+)?(?:COPY|ADD|RUN\s[^\n]*--mount)\b/im

/** `pack` is called only if the context is needed. */
export async function sendDockerfile(
  builds: Builds,
  dockerfile: Omit<DockerfileDescription, 'context'>,
  pack: () => Promise<PackedContext>,
  o: Omit<DockerfileBuildOptions, 'context'>,
): Promise<BuiltDockerfile> {
  if (!READS_CONTEXT.test(dockerfile.content)) {
    try {
      return await builds.dockerfile(dockerfile, o)
    } catch (error) {
      // An image below has ONBUILD instructions that copy.
      if (!isAgentPodError(error, 'invalid_argument') || error.reason !== 'dockerfile.context') throw error
    }
  }
  o.onProgress?.('packing the build context')
  using context = await pack()
  return await builds.dockerfile(
    { ...dockerfile, context: context.digest },
    { ...o, context: () => context.open() },
  )
}

export function readDockerfile(file: string, hint: string): string {
  try {
    if (statSync(file).size > LARGEST_DOCKERFILE)
      throw invalid('dockerfile.size', `${file} is larger than ${LARGEST_DOCKERFILE} bytes`)
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (isAgentPodError(error)) throw error
    throw new AgentPodError({
      code: 'not_found',
      reason: 'dockerfile.missing',
      message: `there is no Dockerfile ${file}`,
      hint,
      cause: error,
    })
  }
}

export function checkContextDirectory(directory: string, hint: string): void {
  if (statSync(directory, { throwIfNoEntry: false })?.isDirectory()) return
  throw invalid('dockerfile.context', `the build context ${directory} is not a directory`, hint)
}
