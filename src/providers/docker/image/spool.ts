/** Writes content to a file and checks its digest there, before it is used. */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Readable, Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError } from '../../../core/error.ts'
import type { Packed } from '../../../core/provider.ts'

export async function withDirectory<T>(work: (directory: string) => Promise<T>): Promise<T> {
  const directory = await mkdtemp(join(tmpdir(), 'agentpod-docker-'))
  try {
    return await work(directory)
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

/** Writes content to a file; `data_loss` if its sha256 is not `digest`. */
export async function spoolChecked(content: Readable, file: string, digest: string): Promise<void> {
  await pipeline(content, digestCheck(digest), createWriteStream(file, { mode: 0o600 }))
}

/** Passes content on, and fails instead of ending if its sha256 is not `digest`. */
export function digestCheck(digest: string): Transform {
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

/** Streams a file, and removes its directory when the stream ends or is destroyed. */
export async function readAndRemove(file: string, digest: string, directory: string): Promise<Packed> {
  const { size } = await stat(file)
  const content = createReadStream(file)
  content.once('close', () => void rm(directory, { recursive: true, force: true }).catch(() => undefined))
  return { digest, sizeBytes: size, content }
}

function corrupt(): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'content.digest',
    message: 'the content does not match its digest',
    hint: 'transfer it again: it was changed or cut off',
  })
}
