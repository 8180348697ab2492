/** A Dockerfile that an environment in code starts from. */
import { hostname } from 'node:os'
import { basename, dirname, resolve } from 'node:path'
import type { PackagePreset } from '../../core/build/package-preset.ts'
import { sha256Hex } from '../../util/sha256.ts'
import type { DockerfileBuildOptions, DockerfileDescription } from '../builds.ts'
import type { AgentPod } from '../client.ts'
import { packContext, readIgnore } from './build-context.ts'
import { checkContextDirectory, readDockerfile, sendDockerfile } from './send-dockerfile.ts'

export interface EnvironmentDockerfileOptions {
  /** The directory that COPY and ADD read from; that of the Dockerfile if left out. */
  readonly context?: string | undefined
  /** The stage to build; the last one if left out. */
  readonly target?: string | undefined
  /** Values of ARG instructions. */
  readonly args?: Readonly<Record<string, string>> | undefined
  /** For `RUN --mount=type=secret`, by id. They are not stored. */
  readonly secrets?: Readonly<Record<string, string>> | undefined
  /** Hosts that instructions may reach, like `example.com` or `*.example.com`; none if left out. */
  readonly network?: readonly string[] | undefined
  /** Package managers whose registries they may reach. */
  readonly packages?: readonly PackagePreset[] | undefined
  /** How long one instruction may take; 30 minutes if left out. */
  readonly timeoutMs?: number | undefined
}

export interface EnvironmentDockerfile extends EnvironmentDockerfileOptions {
  readonly file: string
  readonly context: string
  /** The name that its image is stored under. */
  readonly image: string
}

/** Paths are those of the program's directory now. The same file and options have the same name. */
export function environmentDockerfile(path: string, o: EnvironmentDockerfileOptions): EnvironmentDockerfile {
  const file = resolve(path)
  const context = resolve(o.context ?? dirname(file))
  const key = sha256Hex(JSON.stringify([hostname(), file, context, o.target, o.args])).slice(0, 12)
  const name = basename(dirname(file))
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-+|-+$/g, '')
    .slice(0, 20)
    .replace(/-$/, '')
  // The host cannot exist, so the image is never looked for in a registry.
  return { ...o, file, context, image: `dockerfile.invalid/code/${name || 'environment'}-${key}` }
}

/** What the Dockerfile says about commands in sandboxes. */
export interface DockerfileSettings {
  readonly user: string
  /** Empty if it says nothing. */
  readonly workdir: string
}

/** Stores the image. `rules` are those of `network`. */
export async function buildEnvironmentDockerfile(
  pod: AgentPod,
  dockerfile: EnvironmentDockerfile,
  rules: DockerfileDescription['network'],
  o: Omit<DockerfileBuildOptions, 'context'> & { readonly useCache: boolean },
): Promise<DockerfileSettings> {
  const { file, context, image, target, args, secrets, packages, timeoutMs } = dockerfile
  const { useCache, ...options } = o
  const hint = 'a relative path begins at the current directory of the program'
  const content = readDockerfile(file, hint)
  checkContextDirectory(context, hint)
  const { config } = await sendDockerfile(
    pod.builds,
    {
      name: basename(file),
      content,
      target,
      args: { ...args },
      secrets: { ...secrets },
      network: rules,
      presets: [...(packages ?? [])],
      tag: image,
      useCache,
      timeoutMs,
    },
    () => packContext({ directory: context, ignore: readIgnore(context, file) }),
    { ...options, project: file.slice(-200) },
  )
  return settingsOf(config)
}

const NUMBERS = /^[0-9]+(?::[0-9]+)?$/

function settingsOf(config: unknown): DockerfileSettings {
  const { User: user, WorkingDir: workdir } = objectOf(objectOf(config)['config'])
  const named = typeof user === 'string' && user !== '' ? user : 'root'
  return {
    // The group of a named user is the one that the image's own files give it.
    user: NUMBERS.test(named) ? named : (named.split(':')[0] ?? named),
    workdir: typeof workdir === 'string' ? workdir : '',
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}
