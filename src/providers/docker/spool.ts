/** Content that must be known whole before it is used: it is written to a file first and checked there. */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError } from '../../core/error.ts'
import type { Packed } from '../../core/provider.ts'

export async function withDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'agentpod-docker-'))
  try {
    return await work(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Writes content to a file; `data_loss` when its sha256 is not `digest`. */
export async function spoolChecked(content: Readable, file: string, digest: string): Promise<void> {
  await pipeline(content, checked(digest), createWriteStream(file, { mode: 0o600 }))
}

/** Lets content through, and fails at its end, before that is passed on, when its sha256 is not `digest`. */
export function checked(digest: string): Transform {
  const hash = createHash('sha256')
  return new Transform({
    transform(chunk: Buffer, _, done) {
      hash.update(chunk)
      done(null, chunk)
    },
    flush(done) {
      done(hash.digest('hex') === digest ? null : corrupt())
    },
  })
}

/** A file as content to hand out; its directory goes when the content is read or given up. */
export async function handOut(file: string, digest: string, directory: string): Promise<Packed> {
  const { size } = await stat(file)
  const content = createReadStream(file)
  content.once('close', () => void rm(directory, { recursive: true, force: true }).catch(() => undefined))
  return { digest, sizeBytes: size, content }
}

function corrupt(): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'content.digest',
    message: 'the content is not what its digest says',
    hint: 'get it again: it was changed or cut off on its way',
  })
}
