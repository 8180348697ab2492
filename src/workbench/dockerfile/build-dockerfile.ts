/** Builds a Dockerfile of a directory on the server. */
import { basename, relative, resolve } from 'node:path'
import type { BuiltDockerfile, DockerfileBuildOptions, DockerfileDescription } from '../../client/builds.ts'
import { packContext, readIgnore } from '../../client/dockerfile/build-context.ts'
import {
  checkContextDirectory,
  readDockerfile,
  sendDockerfile,
} from '../../client/dockerfile/send-dockerfile.ts'
import { prepareNetwork } from '../network/prepare-network.ts'
import type { Workbench } from '../workbench.ts'

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

export async function buildDockerfile(
  bench: Workbench,
  build: DockerfileBuild,
  o: Omit<DockerfileBuildOptions, 'context'>,
): Promise<BuiltDockerfile> {
  const { file, directory, target, args, secrets, tag, useCache, timeoutMs } = build
  const content = readDockerfile(file, 'name it with -f FILE')
  checkContextDirectory(
    directory,
    'name the directory whose files the Dockerfile copies, as in `agentpod build -f Dockerfile .`',
  )
  const { allow, allowPrivate, presets } = build
  const { network } = await prepareNetwork(bench, { allow, allowPrivate, presets }, { directory })
  const client = await bench.client()
  return await sendDockerfile(
    client.builds,
    {
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
    },
    () => packContext({ directory, ignore: readIgnore(directory, file) }),
    { ...o, project: o.project ?? resolve(file) },
  )
}

/** As the user wrote it, if it is below the working directory. */
function shownName(file: string): string {
  const near = relative(process.cwd(), resolve(file))
  return near === '' || near.startsWith('..') || near.length > 200 ? basename(file) : near
}
