/** What a key of `features` refers to: an artifact in a registry, a tarball, or a folder of the project. */
import { posix } from 'node:path'
import { invalid } from '../../../core/error.ts'
import { directoryOf } from '../../file-tree.ts'
import { quoted } from '../../toml/problem.ts'

export type FeatureReference =
  | {
      readonly kind: 'registry'
      /** As it is in the file. */
      readonly written: string
      readonly registry: string
      /** Without the id: `devcontainers/features`. */
      readonly namespace: string
      readonly id: string
      /** A reference has a tag or a digest. */
      readonly tag?: string | undefined
      readonly digest?: string | undefined
    }
  | {
      readonly kind: 'tarball'
      readonly written: string
      readonly url: string
      readonly id: string
    }
  | {
      readonly kind: 'folder'
      readonly written: string
      /** Relative to the project, inside `.devcontainer`. */
      readonly path: string
      readonly id: string
    }

const ID = /^[a-zA-Z0-9_-]+$/
const TAG = /^[a-z0-9_][a-z0-9._-]{0,127}$/
const DIGEST = /^sha256:[0-9a-f]{64}$/
const PATH = /^[a-z0-9]+(?:[._-][a-z0-9]+)*(?:\/[a-z0-9]+(?:[._-][a-z0-9]+)*)+$/
const REGISTRY = /^[a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?(?::[0-9]{1,5})?$/
const TARBALL = /^devcontainer-feature-([a-zA-Z0-9_-]+)\.tgz$/
const FOLDER = '.devcontainer'

/** Features that were named without a registry. The official command still accepts these. */
const OLD_NAMES: ReadonlySet<string> = new Set([
  'aws-cli',
  'azure-cli',
  'desktop-lite',
  'docker-in-docker',
  'docker-from-docker',
  'dotnet',
  'git',
  'git-lfs',
  'github-cli',
  'java',
  'kubectl-helm-minikube',
  'node',
  'powershell',
  'python',
  'ruby',
  'rust',
  'sshd',
  'terraform',
])
const RENAMED: Readonly<Record<string, string>> = { golang: 'go', common: 'common-utils' }
const OFFICIAL = 'ghcr.io/devcontainers/features'
const OLD_NAMESPACE = 'devcontainers-contrib'
const NEW_NAMESPACE = 'devcontainers-extra'

/** `configFile` is the devcontainer.json that names the Feature, relative to the project. */
export function parseFeatureReference(written: string, configFile: string): FeatureReference {
  if (written.startsWith('https://')) return tarball(written)
  if (/^(?:\.{0,2}\/)/.test(written)) return folder(written, configFile)
  if (!written.includes('/')) return { ...artifact(oldName(written)), written }
  return artifact(written)
}

/** The official Feature that an old name means. */
function oldName(written: string): string {
  if (OLD_NAMES.has(written)) return `${OFFICIAL}/${written}:1`
  if (Object.hasOwn(RENAMED, written)) return `${OFFICIAL}/${RENAMED[written]}:1`
  throw wrong(
    written,
    'has no registry',
    `name one, like "${OFFICIAL}/${written}:1", or write "./${written}" for a folder of this project`,
  )
}

function artifact(written: string): FeatureReference {
  const lower = written.toLowerCase()
  const at = lower.lastIndexOf('@')
  const colon = lower.lastIndexOf(':')
  const hasTag = at < 0 && colon > lower.lastIndexOf('/')
  const name = at >= 0 ? lower.slice(0, at) : hasTag ? lower.slice(0, colon) : lower
  const digest = at < 0 ? undefined : lower.slice(at + 1)
  const tag = at < 0 ? (hasTag ? lower.slice(colon + 1) : 'latest') : undefined
  const [registry = '', ...path] = name.split('/')
  if (path[0] === OLD_NAMESPACE) path[0] = NEW_NAMESPACE
  const id = path.at(-1) ?? ''
  if (!REGISTRY.test(registry) || !PATH.test(path.join('/')))
    throw wrong(written, 'is not a reference', `write it like "${OFFICIAL}/node:1"`)
  if (digest !== undefined && !DIGEST.test(digest))
    throw wrong(written, 'has a digest that is not sha256 and 64 hexadecimal digits')
  if (tag !== undefined && !TAG.test(tag)) throw wrong(written, 'has a version that is not a tag')
  return {
    kind: 'registry',
    written,
    registry,
    namespace: path.slice(0, -1).join('/'),
    id,
    ...(tag !== undefined && { tag }),
    ...(digest !== undefined && { digest }),
  }
}

/** SECURITY: CF-02. A URL with a user in it is refused: a project's file is no place for credentials. */
function tarball(written: string): FeatureReference {
  const url = URL.parse(written)
  if (url?.username !== '' || url.password !== '') throw wrong(written, 'is not an address')
  const [, id] = TARBALL.exec(url.pathname.slice(url.pathname.lastIndexOf('/') + 1)) ?? []
  if (id === undefined)
    throw wrong(
      written,
      'does not end with devcontainer-feature-ID.tgz',
      'name the tarball as it was packaged',
    )
  return { kind: 'tarball', written, url: url.toString(), id }
}

/** SECURITY: CF-02. A folder must be inside `.devcontainer`; links are not followed when it is read. */
function folder(written: string, configFile: string): FeatureReference {
  if (written.startsWith('/'))
    throw wrong(written, 'is an absolute path', 'name a folder in .devcontainer, like "./my-feature"')
  const path = posix.join(directoryOf(configFile) || '.', written).replace(/\/+$/, '')
  if (!path.startsWith(`${FOLDER}/`))
    throw wrong(written, `is not inside ${FOLDER}`, `move the Feature to ${FOLDER}/my-feature`)
  const id = posix.basename(path)
  if (!ID.test(id)) throw wrong(written, 'has a folder whose name is not an id')
  return { kind: 'folder', written, path, id }
}

function wrong(written: string, message: string, hint?: string): Error {
  return invalid('devcontainer.feature', `the Feature ${quoted(written)} ${message}`, hint)
}

/** Without tag and digest: what soft dependencies and `overrideFeatureInstallOrder` compare. */
export function featureResource(reference: FeatureReference): string {
  if (reference.kind === 'tarball') return reference.url
  if (reference.kind === 'folder') return reference.path
  return `${reference.registry}/${reference.namespace}/${reference.id}`
}

/** A tag or digest is no part of the name that `devcontainer-lock.json` and the metadata label give. */
export function writtenWithoutVersion(written: string): string {
  return written.replace(/[:@][^/]*$/, '')
}
