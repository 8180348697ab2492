/** Packs the directory of a Dockerfile for the server: what .dockerignore leaves, links as links. */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { lstat, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError } from '../../core/error.ts'
import { packFiles } from '../../sync/tar.ts'
import { type IgnorePatterns, parseIgnorePatterns } from './ignore-patterns.ts'

export interface PackedContext {
  /** sha256 of the archive. */
  readonly digest: string
  readonly count: number
  open(): Readable
  /** Removes the archive. */
  [Symbol.dispose](): void
}

const MOST_FILES = 200_000
const LARGEST_BYTES = 1024 * 1024 * 1024

/** What .dockerignore leaves of a directory, or of some of its files. */
export interface ContextFiles {
  readonly directory: string
  readonly ignore: IgnorePatterns
  /** Paths below the directory; all of its files if left out. */
  readonly only?: readonly string[] | undefined
}

export async function packContext({ directory, ignore, only }: ContextFiles): Promise<PackedContext> {
  const paths = only ? listed(only, ignore) : await listContext(directory, ignore)
  const draft = mkdtempSync(join(tmpdir(), 'agentpod-context-'))
  const file = join(draft, 'context.tar')
  const sum = createHash('sha256')
  let size = 0
  const count = new Transform({
    transform(chunk: Buffer, _, done) {
      size += chunk.length
      sum.update(chunk)
      done(size > LARGEST_BYTES ? tooLarge() : null, chunk)
    },
  })
  try {
    await pipeline(packFiles(directory, paths), count, createWriteStream(file, { mode: 0o600, flags: 'wx' }))
  } catch (error) {
    rmSync(draft, { recursive: true, force: true })
    throw error
  }
  return {
    digest: sum.digest('hex'),
    count: paths.length,
    open: () => createReadStream(file),
    [Symbol.dispose]: () => rmSync(draft, { recursive: true, force: true }),
  }
}

/** The .dockerignore of the Dockerfile itself goes before that of the directory. */
export function readIgnore(
  directory: string,
  dockerfile: string,
  read: (file: string) => string | undefined = readText,
): IgnorePatterns {
  for (const file of [`${dockerfile}.dockerignore`, join(directory, '.dockerignore')]) {
    const text = read(file)
    if (text !== undefined) return parseIgnorePatterns(text, file)
  }
  return { hasNegated: false, isIgnored: () => false }
}

function readText(file: string): string | undefined {
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined
}

function listed(paths: readonly string[], ignore: IgnorePatterns): string[] {
  const found = new Set<string>()
  for (const path of paths) if (!ignore.isIgnored(path)) add(found, path)
  return [...found].sort()
}

/** Sorted paths below the directory, directories before what is in them. */
export async function listContext(directory: string, ignore: IgnorePatterns): Promise<string[]> {
  const found = new Set<string>()
  const walk = async (below: string): Promise<void> => {
    const entries = await readdir(join(directory, below), { withFileTypes: true })
    for (const { name } of entries) {
      const path = below === '' ? name : `${below}/${name}`
      const isIgnored = ignore.isIgnored(path)
      const info = await lstat(join(directory, path)).catch(() => undefined)
      if (!info) continue
      if (!isIgnored && (info.isFile() || info.isSymbolicLink() || info.isDirectory())) add(found, path)
      if (info.isDirectory() && (!isIgnored || ignore.hasNegated)) await walk(path)
    }
  }
  await walk('')
  return [...found].sort()
}

/** A file that is brought back needs the directories above it. */
function add(found: Set<string>, path: string): void {
  const parts = path.split('/')
  for (const at of parts.keys()) found.add(parts.slice(0, at + 1).join('/'))
  if (found.size > MOST_FILES)
    throw new AgentPodError({
      code: 'resource_exhausted',
      reason: 'context.files',
      message: `the build context has more than ${MOST_FILES} files`,
      hint: 'list what the build does not need in .dockerignore',
    })
}

function tooLarge(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'context.size',
    message: `the build context is larger than ${LARGEST_BYTES} bytes`,
    hint: 'list what the build does not need in .dockerignore',
  })
}
