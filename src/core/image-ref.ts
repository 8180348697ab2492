/** References to container images, as Docker reads them: `debian:12`, `ghcr.io/owner/name@sha256:...`. */
import { AgentPodError, invalid } from './error.ts'

export interface ImageRef {
  /** The host of the registry, with its port if it has one. */
  readonly registry: string
  /** The repository in the registry: `library/debian`. */
  readonly repository: string
  readonly tag?: string | undefined
  /** `sha256:` and 64 hexadecimal digits. If there is one, the tag has no effect. */
  readonly digest?: string | undefined
}

export function isImageRef(text: string): boolean {
  try {
    parseImageRef(text)
    return true
  } catch {
    return false
  }
}

export const LONGEST_IMAGE_REF = 512
const LONGEST_NAME = 255
const DEFAULT_REGISTRY = 'docker.io'
const DEFAULT_TAG = 'latest'

/** Each pattern is anchored and reads every character once. */
const HOST = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/
const PORT = /^[0-9]{1,5}$/
const PART = /^[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*$/
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/
const DIGEST = /^sha256:[0-9a-f]{64}$/
const ID = /^[0-9a-f]{64}$/

/**
 * `invalid_argument` for references that Docker would refuse, and for digests other than sha256.
 *
 * SECURITY: CF-02. A project file may name an image, and the reference becomes part of a request to a daemon:
 * it must not be a path, an option, or an address with a user or a query.
 */
export function parseImageRef(text: string): ImageRef {
  const [name = '', digest, ...more] = text.slice(0, LONGEST_IMAGE_REF + 1).split('@')
  if (text.length > LONGEST_IMAGE_REF || more.length > 0) throw noReference(text)
  if (digest !== undefined && !DIGEST.test(digest)) throw noReference(text)
  const colon = name.indexOf(':', name.lastIndexOf('/') + 1)
  const path = colon < 0 ? name : name.slice(0, colon)
  const tag = colon < 0 ? undefined : name.slice(colon + 1)
  if (tag !== undefined && !TAG.test(tag)) throw noReference(text)
  const { registry, repository } = splitRegistry(path)
  const isName = isRegistry(registry) && repository.split('/').every((part) => PART.test(part))
  if (!isName || `${registry}/${repository}`.length > LONGEST_NAME || ID.test(path)) throw noReference(text)
  return {
    registry,
    repository,
    ...(tag === undefined ? digest === undefined && { tag: DEFAULT_TAG } : { tag }),
    ...(digest !== undefined && { digest }),
  }
}

/**
 * The first part is a registry if it cannot be a repository: if it has a dot or a port, or is `localhost`.
 */
function splitRegistry(path: string): Pick<ImageRef, 'registry' | 'repository'> {
  const slash = path.indexOf('/')
  const first = path.slice(0, Math.max(slash, 0))
  const isHost = first === 'localhost' || first.includes('.') || first.includes(':')
  if (!isHost) return onDocker(path)
  const rest = path.slice(slash + 1)
  return first === DEFAULT_REGISTRY || first === 'index.docker.io'
    ? onDocker(rest)
    : { registry: first, repository: rest }
}

function onDocker(path: string): Pick<ImageRef, 'registry' | 'repository'> {
  return { registry: DEFAULT_REGISTRY, repository: path.includes('/') ? path : `library/${path}` }
}

function isRegistry(registry: string): boolean {
  const [host = '', port, ...more] = registry.split(':')
  const isPort = port === undefined || (PORT.test(port) && Number(port) > 0 && Number(port) < 65_536)
  return more.length === 0 && isPort && host.split('.').every((label) => HOST.test(label))
}

/** In full, as registries and daemons expect it: `docker.io/library/debian:12`. */
export function imageText({ registry, repository, tag, digest }: ImageRef): string {
  return `${registry}/${repository}${tag === undefined ? '' : `:${tag}`}${digest === undefined ? '' : `@${digest}`}`
}

/** The same image, whatever its tag points to later. */
export function atDigest(ref: ImageRef, digest: string): ImageRef {
  if (!DIGEST.test(digest))
    throw invalid('image.digest', 'the digest of an image is sha256: and 64 hexadecimal digits')
  return { ...ref, digest }
}

function noReference(text: string): AgentPodError {
  const shown = JSON.stringify(text.slice(0, 100).replaceAll(/[^\x20-\x7e]/g, '?'))
  return invalid(
    'image.reference',
    `${shown} does not name an image`,
    'write one like debian:12, ghcr.io/owner/name:tag or name@sha256:..., in lower case',
  )
}

/** For a reference that no stored image has. */
export function unknownImage(ref: string): AgentPodError {
  return new AgentPodError({
    code: 'not_found',
    reason: 'image.absent',
    message: `there is no image ${ref} on this server`,
    hint: '`agentpod image ls` lists the images, `agentpod image pull` gets one',
  })
}
