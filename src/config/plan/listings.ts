/** Which versions of a toolchain its registry has. Asked of the registries that this machine's own clients use, and remembered for a day. */
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { z } from 'zod'
import { AgentPodError } from '../../core/error.ts'
import { makeDirectory } from '../../util/make-directory.ts'

/** A version that can be had, with the digest of its archive where the registry says it. */
export interface Listed {
  readonly version: string
  /** sha512, hexadecimal. */
  readonly sha512?: string | undefined
}

export interface Listings {
  /** Versions of a package of npm. */
  npm(name: string): Promise<readonly Listed[]>
  /** Versions of Go's own toolchain, as the module proxy has them. */
  go(arch: string): Promise<readonly Listed[]>
}

export interface ListingParts {
  /** Where what was said is kept. */
  readonly directory: string
  now(): number
  /** The address of a registry, as the preset knows it. */
  registry(preset: 'npm' | 'go'): Promise<string | undefined>
}

const FILE = 'toolchain-listings.json'
const FRESH_MS = 24 * 3_600_000
const ASK_MS = 30_000
const LARGEST_BYTES = 64 * 1024 * 1024

const listed = z.array(z.object({ version: z.string(), sha512: z.string().optional() }))
const schema = z.record(z.string(), z.object({ at: z.number(), versions: listed }))

export function listings(parts: ListingParts): Listings {
  return {
    npm: (name) =>
      remembered(parts, `npm ${name}`, async () => {
        const url = new URL(`${name.replace('/', '%2f')}`, slashed(await needRegistry(parts, 'npm')))
        const answer = await ask(url, { accept: 'application/vnd.npm.install-v1+json' })
        return npmVersions(JSON.parse(answer))
      }),
    go: (arch) =>
      remembered(parts, `go ${arch}`, async () => {
        const url = new URL('golang.org/toolchain/@v/list', slashed(await needRegistry(parts, 'go')))
        return goVersions(await ask(url, {}), arch)
      }),
  }
}

/** Where nobody answers, what was said longest ago is still better than nothing. */
async function remembered(
  parts: ListingParts,
  key: string,
  work: () => Promise<readonly Listed[]>,
): Promise<readonly Listed[]> {
  const known = read(parts)
  const kept = known[key]
  if (kept && parts.now() - kept.at < FRESH_MS) return kept.versions
  try {
    const versions = await work()
    write(parts, {
      ...read(parts),
      [key]: { at: parts.now(), versions: versions.map((one) => ({ ...one })) },
    })
    return versions
  } catch (error) {
    if (kept) return kept.versions
    throw error
  }
}

type Kept = z.infer<typeof schema>

/** What cannot be read is asked for again. */
function read({ directory }: ListingParts): Kept {
  try {
    return schema.parse(JSON.parse(readFileSync(join(directory, FILE), 'utf8')))
  } catch {
    return {}
  }
}

function write({ directory }: ListingParts, kept: Kept): void {
  makeDirectory(directory, 0o700)
  const draft = join(directory, `${FILE}.${process.pid}`)
  writeFileSync(draft, JSON.stringify(kept), { mode: 0o600 })
  renameSync(draft, join(directory, FILE))
}

async function needRegistry(parts: ListingParts, preset: 'npm' | 'go'): Promise<string> {
  const url = await parts.registry(preset)
  if (url !== undefined) return url
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'registry.unknown',
    message: `where ${preset} fetches from is not known here`,
    hint: `name it once: \`agentpod preset set ${preset} HOST...\``,
  })
}

async function ask(url: URL, headers: Record<string, string>): Promise<string> {
  try {
    const response = await fetch(url, { headers, signal: AbortSignal.timeout(ASK_MS) })
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
    throw new AgentPodError({
      code: 'unavailable',
      reason: 'registry.unreachable',
      message: `${url.host} did not say which versions there are: ${error instanceof Error ? error.message : error}`,
      hint: 'try again, or name a version that this machine has in [environment.languages]',
      cause: error,
    })
  }
}

const packument = z.object({
  versions: z.record(
    z.string(),
    z.object({ dist: z.object({ integrity: z.string().optional() }).optional() }),
  ),
})

export function npmVersions(answer: unknown): Listed[] {
  return Object.entries(packument.parse(answer).versions).flatMap(([version, { dist }]) => {
    if (!/^\d+\.\d+\.\d+$/.test(version)) return []
    const base64 = /^sha512-([A-Za-z0-9+/=]{86,90})$/.exec(dist?.integrity ?? '')?.[1]
    return [{ version, ...(base64 && { sha512: Buffer.from(base64, 'base64').toString('hex') }) }]
  })
}

export function goVersions(answer: string, arch: string): Listed[] {
  const line = new RegExp(`^v0\\.0\\.1-go(\\d+\\.\\d+(?:\\.\\d+)?)\\.linux-${arch}$`)
  return answer.split('\n').flatMap((text) => {
    const version = line.exec(text.trim())?.[1]
    return version ? [{ version }] : []
  })
}

function slashed(url: string): string {
  return url.endsWith('/') ? url : `${url}/`
}
