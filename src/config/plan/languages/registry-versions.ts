/**
 * Lists the versions of a toolchain in its registry. Uses the registries of this machine's own clients, and
 * caches the answer for a day.
 */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import * as z from 'zod'
import { AgentPodError } from '../../../core/error.ts'
import { makeDirectory } from '../../../util/file/make-directory.ts'
import { printable } from '../../toml/problem.ts'

/** An available version, with the digest of its archive if the registry gives one. */
export interface ListedVersion {
  readonly version: string
  /** sha512, hexadecimal. */
  readonly sha512?: string | undefined
}

export interface RegistryVersions {
  /** Versions of a package of npm. */
  npm(name: string): Promise<readonly ListedVersion[]>
  /** Versions of the Go toolchain in the module proxy. */
  go(arch: string): Promise<readonly ListedVersion[]>
}

export interface RegistryVersionsParts {
  /** The directory of the cache. */
  readonly directory: string
  now(): number
  /** The address of a registry, as the preset knows it. */
  registry(preset: 'npm' | 'go'): Promise<string | undefined>
  /** The time limit for a whole answer. */
  readonly askMs?: number | undefined
}

const FILE = 'toolchain-listings.json'
const FRESH_MS = 24 * 3_600_000
const ASK_MS = 30_000
const LARGEST_BYTES = 64 * 1024 * 1024

const listed = z.array(z.object({ version: z.string(), sha512: z.string().optional() }))
const schema = z.record(z.string(), z.object({ at: z.number(), versions: listed }))

export function registryVersions(parts: RegistryVersionsParts): RegistryVersions {
  // A plan looks at several bases; each question is asked once, even if it fails.
  const asked = new Map<string, Promise<readonly ListedVersion[]>>()
  const once = (
    key: string,
    work: () => Promise<readonly ListedVersion[]>,
  ): Promise<readonly ListedVersion[]> => {
    const known = asked.get(key) ?? remembered(parts, key, work)
    asked.set(key, known)
    return known
  }
  return {
    npm: (name) =>
      once(`npm ${name}`, async () => {
        const url = urlOf(await needRegistry(parts, 'npm'), name.replace('/', '%2f'))
        const answer = await ask(url, { accept: 'application/vnd.npm.install-v1+json' }, parts.askMs)
        return understood(url, () => npmVersions(JSON.parse(answer)))
      }),
    go: (arch) =>
      once(`go ${arch}`, async () => {
        const url = urlOf(await needRegistry(parts, 'go'), 'golang.org/toolchain/@v/list')
        const answer = await ask(url, {}, parts.askMs)
        return understood(url, () => goVersions(answer, arch))
      }),
  }
}

/** If the registry does not answer, an old answer is better than none. */
async function remembered(
  parts: RegistryVersionsParts,
  key: string,
  work: () => Promise<readonly ListedVersion[]>,
): Promise<readonly ListedVersion[]> {
  const known = read(parts)
  const kept = Object.hasOwn(known, key) ? known[key] : undefined
  const age = kept ? parts.now() - kept.at : FRESH_MS
  if (kept && age >= 0 && age < FRESH_MS) return kept.versions
  let versions: readonly ListedVersion[]
  try {
    versions = await work()
  } catch (error) {
    if (kept) return kept.versions
    throw error
  }
  write(parts, {
    ...read(parts),
    [key]: { at: parts.now(), versions: versions.map((one) => ({ ...one })) },
  })
  return versions
}

type Kept = z.infer<typeof schema>

/** An unreadable cache is ignored. */
function read({ directory }: RegistryVersionsParts): Kept {
  try {
    return schema.parse(JSON.parse(readFileSync(join(directory, FILE), 'utf8')))
  } catch {
    return {}
  }
}

function write({ directory }: RegistryVersionsParts, kept: Kept): void {
  try {
    makeDirectory(directory, 0o700)
    const draft = join(directory, `${FILE}.${process.pid}`)
    writeFileSync(draft, JSON.stringify(kept), { mode: 0o600 })
    renameSync(draft, join(directory, FILE))
  } catch {
    // Without a cache, the registry is asked again.
  }
}

async function needRegistry(parts: RegistryVersionsParts, preset: 'npm' | 'go'): Promise<string> {
  const url = await parts.registry(preset)
  if (url !== undefined) return url
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'registry.unknown',
    message: `the registry of ${preset} is not known on this machine`,
    hint: `set it with \`agentpod preset set ${preset} HOST...\``,
  })
}

async function ask(url: URL, headers: Record<string, string>, timeoutMs = ASK_MS): Promise<string> {
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(timeoutMs) })
    if (!response.ok) throw new Error(`status ${response.status}`)
    const parts: Uint8Array[] = []
    let size = 0
    for await (const part of response.body ?? []) {
      size += part.length
      if (size > LARGEST_BYTES) throw new Error('the answer is too long')
      parts.push(part)
    }
    return Buffer.concat(parts).toString('utf8')
  } catch (error) {
    throw unanswered(url, causeOf(error), error)
  }
}

/** Node wraps network errors. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  return cause instanceof Error && 'code' in cause ? String(cause.code) : error.message
}

function understood(url: URL, read: () => ListedVersion[]): ListedVersion[] {
  let versions: ListedVersion[]
  try {
    versions = read()
  } catch (error) {
    throw unanswered(url, 'the answer is not a list of versions', error)
  }
  if (versions.length > 0) return versions
  throw unanswered(url, 'it lists no versions', undefined)
}

function unanswered(url: URL, why: string, cause: unknown): AgentPodError {
  return new AgentPodError({
    code: 'unavailable',
    reason: 'registry.unreachable',
    message: `${url.host} did not list its versions: ${printable(why, 200)}`,
    hint: 'try again, or choose a version that this machine has under [environment.languages]',
    cause,
  })
}

const packument = z.object({
  versions: z.record(
    z.string(),
    z.object({ dist: z.object({ integrity: z.string().optional() }).optional() }),
  ),
})

export function npmVersions(answer: unknown): ListedVersion[] {
  return Object.entries(packument.parse(answer).versions).flatMap(([version, { dist }]) => {
    if (!/^\d{1,9}\.\d{1,9}\.\d{1,9}$/.test(version)) return []
    const base64 = /^sha512-([A-Za-z0-9+/]{86}==)$/.exec(dist?.integrity ?? '')?.[1]
    return [{ version, ...(base64 && { sha512: Buffer.from(base64, 'base64').toString('hex') }) }]
  })
}

export function goVersions(answer: string, arch: string): ListedVersion[] {
  return answer.split('\n').flatMap((text) => {
    const [, version, system] =
      /^v0\.0\.1-go(\d{1,9}\.\d{1,9}(?:\.\d{1,9})?)\.(linux-[a-z0-9]{1,20})$/.exec(text.trim()) ?? []
    return version && system === `linux-${arch}` ? [{ version }] : []
  })
}

function urlOf(registry: string, path: string): URL {
  const url = URL.parse(path, registry.endsWith('/') ? registry : `${registry}/`)
  if (url?.protocol === 'https:' || url?.protocol === 'http:') return url
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'registry.unknown',
    message: `${printable(registry)} is not the address of a registry`,
    hint: 'set its host with `agentpod preset set NAME HOST...`',
  })
}
