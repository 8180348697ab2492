/** Pulls images from registries through the daemon, with the credentials of the docker command. */
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError, isAgentPodError } from '../../../core/error.ts'
import type { Image, Images } from '../../../core/provider.ts'
import { variablesOf } from '../container/create.ts'
import { callSignal } from '../daemon/call-signal.ts'
import type { Daemon } from '../daemon/daemon.ts'
import type { EnvironmentVariables } from '../daemon/endpoint.ts'
import { followProgress } from '../daemon/progress.ts'
import type { ImageInfo, ImageStore } from './image-store.ts'
import { registryAuth } from './registry-auth.ts'

/** The grammar of references: [HOST[:PORT]/]PATH[:TAG][@DIGEST]. */
const REFERENCE =
  /^(?:(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::\d{1,5})?\/)?[a-z0-9]+(?:[._/-]+[a-z0-9]+)*(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?$/
const ID = /^(?:sha256:)?[0-9a-f]{64}$/
const LONGEST = 400
const UNKNOWN =
  /not found|manifest unknown|pull access denied|does not exist|no such image|repository name not known/i

export function dockerImages(daemon: Daemon, store: ImageStore, env: EnvironmentVariables): Images {
  return {
    async ensure(ref, onProgress, o) {
      const name = parseReference(ref)
      const found = (await store.look(name, o)) ?? (await byId(store, name, o))
      if (found) return imageOf(name, found)
      if (ID.test(name)) throw unknown(name)
      onProgress(`pulling ${name}`)
      await pull(daemon, env, name, onProgress, o)
      const pulled = await store.look(name, o)
      if (!pulled) throw unknown(name)
      return imageOf(name, pulled)
    },
  }
}

/** An image that was not pulled from a registry has no registry digest; its id is used instead. */
async function byId(store: ImageStore, name: string, o: CallOptions): Promise<ImageInfo | undefined> {
  const id = name.split('@')[1]
  return id === undefined ? undefined : store.look(id, o)
}

/** The name with an explicit tag. */
export function parseReference(ref: string): string {
  if (ref.length > LONGEST || !(REFERENCE.test(ref) || ID.test(ref)))
    throw new AgentPodError({
      code: 'invalid_argument',
      reason: 'image.malformed',
      message: `${JSON.stringify(ref.slice(0, 100))} is not an image reference`,
      hint: 'write it like python:3.13, ghcr.io/owner/image:tag or image@sha256:DIGEST, in lower case',
    })
  const last = ref.slice(ref.lastIndexOf('/') + 1)
  return ID.test(ref) || last.includes(':') || last.includes('@') ? ref : `${ref}:latest`
}

async function pull(
  daemon: Daemon,
  env: EnvironmentVariables,
  name: string,
  onProgress: (line: string) => void,
  o: CallOptions,
): Promise<void> {
  const registry = await registryAuth(env, name)
  const ask = { method: 'POST', path: '/images/create', query: { fromImage: name }, registry } as const
  try {
    await followProgress(await daemon.stream(ask, o, callSignal(o)), onProgress)
  } catch (error) {
    if (!isAgentPodError(error) || error.code === 'canceled' || error.reason.startsWith('docker.time'))
      throw error
    if (UNKNOWN.test(error.message)) throw unknown(name, error)
    if (error.code === 'unavailable' || error.code === 'resource_exhausted') throw error
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'image.pull',
      message: `the Docker daemon could not pull ${name}: ${error.message}`,
      hint: 'try `docker pull`: the daemon must be able to reach the registry, and a private image needs `docker login`',
      cause: error,
    })
  }
}

function imageOf(ref: string, info: ImageInfo): Image {
  const digest = info.digests[0]?.split('@')[1] ?? info.id
  return {
    ref,
    digest,
    root: { image: info.id },
    env: variablesOf(info.env),
    ...(info.user !== '' && { user: info.user }),
    ...(info.workdir !== '' && { workdir: info.workdir }),
  }
}

function unknown(name: string, cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'image.unknown',
    message: `image ${name} not found, neither in the Docker daemon nor in its registry`,
    hint: 'check the name and the tag; a private image needs `docker login`',
    cause,
  })
}
