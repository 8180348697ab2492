/**
 * Recognizes paths of immutable files in package registries: the name contains a version or a hash. Works for
 * any host, and mirrors may add any prefix.
 */

export interface PackageFile {
  /**
   * The ecosystem. apt checks `debian` files against signed lists, so these may be downloaded without TLS.
   */
  readonly kind: 'npm' | 'pypi' | 'crate' | 'go' | 'maven' | 'debian'
  /** The hash of the content, if the name contains it. */
  readonly sha256?: string | undefined
}

const LONGEST_PATH = 2048
/**
 * SECURITY: segments that a server could read differently are rejected: no escape of a letter, digit, dot,
 * hyphen, slash, backslash or percent sign (`1.0%2dSNAPSHOT`), and no parameter after a semicolon.
 */
const SEGMENT = /^(?:[\w!$'()*+,=:@~.-]|%(?:2[01bBcC]|3[aAdD]|40|5[eE]|7[eE]))+$/
const DOTS = /^\.{1,2}$/
/** A URL that is signed or identifies the user is not cached. */
const CREDENTIAL =
  /(?:^|&)[^=&]*(?:sig|token|key|auth|cred|expires|secret|passw|session|policy|hmac|jwt|user|login)[^=&]*(?:=|&|$)/i
const QUERY = /^[\w.~=&+-]*$/

const SEMVER = String.raw`\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:(?:\+|%2[bB])[0-9A-Za-z.-]+)?`
const NPM_VERSION = new RegExp(`^${SEMVER}\\.tgz$`)
const CRATE = new RegExp(`^[A-Za-z][\\w-]*-${SEMVER}\\.crate$`)
const CRATE_VERSION = new RegExp(`^${SEMVER}$`)
const CRATE_NAME = /^[A-Za-z][\w-]*$/
const PYTHON_FILE = /^[A-Za-z0-9](?:[\w.!+-]|%2[1bB])*\.(?:whl|tar\.gz|zip)(?:\.metadata)?$/
const HEX = /^[0-9a-f]+$/
const SHORTEST_HASH = 32
const GO_FILE = /^v\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?(?:(?:\+|%2[bB])incompatible)?\.(?:zip|mod|info)$/
const MAVEN_VERSION = /^(?=\D*\d)[\w.+~-]+$/
const MAVEN_REST = /^(?:-[\w.+-]+)?\.(?:jar|pom|module)(?:\.sha1|\.sha256)?$/
const SNAPSHOT = /snapshot/i
const DEBIAN_NAME = /^[a-z0-9](?:[a-z0-9.+-]|%2[bB])*$/
const DEBIAN_VERSION = /^\d(?:[A-Za-z0-9.+~:-]|%(?:2[bB]|3[aA]|7[eE]))*$/
const DEBIAN_REST = /^[a-z0-9-]+\.deb$/
const SHA256 = /^[0-9a-f]{64}$/

/** `requestTarget` is in origin form, with its query. */
export function readPackagePath(requestTarget: string): PackageFile | undefined {
  if (requestTarget.length > LONGEST_PATH || !requestTarget.startsWith('/')) return undefined
  const at = requestTarget.indexOf('?')
  const query = at < 0 ? '' : requestTarget.slice(at + 1)
  if (!QUERY.test(query) || CREDENTIAL.test(query)) return undefined
  const segments = (at < 0 ? requestTarget : requestTarget.slice(0, at)).slice(1).split('/')
  if (segments.some((one) => !SEGMENT.test(one) || DOTS.test(one))) return undefined
  return (
    npm(segments) ??
    python(segments) ??
    crate(segments) ??
    go(segments) ??
    debian(segments) ??
    maven(segments)
  )
}

/** `name/-/name-1.2.3.tgz`; some registries repeat the scope after the hyphen. */
function npm(segments: readonly string[]): PackageFile | undefined {
  const at = segments.lastIndexOf('-')
  const name = segments[at - 1]
  const [scope, ...files] = segments.slice(at + 1)
  const file = files[0] ?? scope
  if (at < 1 || name === undefined || file === undefined || files.length > 1) return undefined
  if (files.length === 1 && (scope !== segments[at - 2] || !scope?.startsWith('@'))) return undefined
  const isVersioned = file.startsWith(`${name}-`) && NPM_VERSION.test(file.slice(name.length + 1))
  return isVersioned ? { kind: 'npm' } : undefined
}

/** `packages/ab/cd/<rest of the hash>/name-1.0-py3-none-any.whl`. Without a hash, a file may be replaced. */
function python(segments: readonly string[]): PackageFile | undefined {
  const hash = segments.slice(segments.lastIndexOf('packages') + 1, -1)
  if (!segments.includes('packages') || hash.length < 1 || hash.length > 3) return undefined
  const isHash = hash.every((one) => HEX.test(one)) && hash.join('').length >= SHORTEST_HASH
  return isHash && PYTHON_FILE.test(segments.at(-1) ?? '') ? { kind: 'pypi' } : undefined
}

/** `name-1.2.3.crate`, or `crates/name/1.2.3/download`. */
function crate(segments: readonly string[]): PackageFile | undefined {
  if (CRATE.test(segments.at(-1) ?? '')) return { kind: 'crate' }
  const [crates, name = '', version = '', download] = segments.slice(-4)
  const isDownload = segments.length >= 4 && crates === 'crates' && download === 'download'
  return isDownload && CRATE_NAME.test(name) && CRATE_VERSION.test(version) ? { kind: 'crate' } : undefined
}

/** `module/@v/v1.2.3.zip`. Queries for a branch or a partial version change over time. */
function go(segments: readonly string[]): PackageFile | undefined {
  const isVersion = segments.length >= 3 && segments.at(-2) === '@v' && GO_FILE.test(segments.at(-1) ?? '')
  return isVersion ? { kind: 'go' } : undefined
}

/** `group/artifact/1.2.3/artifact-1.2.3-classifier.jar`. Snapshots and version lists change over time. */
function maven(segments: readonly string[]): PackageFile | undefined {
  const [artifact = '', version = '', file = ''] = segments.slice(-3)
  const prefix = `${artifact}-${version}`
  if (segments.length < 4 || !MAVEN_VERSION.test(version) || !file.startsWith(prefix)) return undefined
  const rest = file.slice(prefix.length)
  return MAVEN_REST.test(rest) && !SNAPSHOT.test(version) && !SNAPSHOT.test(rest)
    ? { kind: 'maven' }
    : undefined
}

/** `pool/main/n/name/name_1.2-3_amd64.deb`, or an index by its content hash. */
function debian(segments: readonly string[]): PackageFile | undefined {
  const [byHash, sort, hash = ''] = segments.slice(-3)
  if (byHash === 'by-hash' && sort === 'SHA256' && SHA256.test(hash)) return { kind: 'debian', sha256: hash }
  const [name = '', version = '', rest = '', ...more] = (segments.at(-1) ?? '').split('_')
  if (!segments.slice(0, -1).includes('pool') || more.length > 0) return undefined
  const isVersioned = DEBIAN_NAME.test(name) && DEBIAN_VERSION.test(version) && DEBIAN_REST.test(rest)
  return isVersioned ? { kind: 'debian' } : undefined
}
