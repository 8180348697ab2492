/**
 * The layers of a snapshot in one archive: `0.tar` is the lowest. They are not merged, because a removal only
 * makes sense above its layer.
 */
import { createHash } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { AgentPodError } from '../../../core/error.ts'
import { padding, tarEnd, tarHeader } from '../../../util/file/tar-writer.ts'
import { spool } from './compose.ts'
import { readTar } from './tar.ts'

const MOST_LAYERS = 100

/** Returns the digest of the bundle. */
export async function writeBundle(layers: readonly string[], file: string): Promise<string> {
  const hash = createHash('sha256')
  const content = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of piecesOf(layers)) {
      hash.update(chunk)
      yield chunk
    }
  }
  await pipeline(Readable.from(content(), { objectMode: false }), createWriteStream(file, { mode: 0o600 }))
  return hash.digest('hex')
}

async function* piecesOf(layers: readonly string[]): AsyncGenerator<Buffer> {
  for (const [index, layer] of layers.entries()) {
    const { size } = await stat(layer)
    yield tarHeader({ path: `${index}.tar`, mode: 0o644, size, type: '0' })
    yield* createReadStream(layer) as AsyncIterable<Buffer>
    yield padding(size)
  }
  yield tarEnd()
}

/** Unpacks a bundle: the digest of each layer and its file, lowest first. */
export async function readBundle(file: string, directory: string): Promise<ReadonlyMap<string, string>> {
  const layers = new Map<string, string>()
  try {
    for await (const { path, type, content } of readTar(createReadStream(file))) {
      if (path !== `${layers.size}.tar` || type !== '0' || layers.size >= MOST_LAYERS)
        throw new Error(`entry ${path}`)
      const layer = join(directory, `${layers.size}.tar`)
      layers.set(await spool(content(), layer), layer)
    }
  } catch (error) {
    throw damaged(error)
  }
  if (layers.size === 0) throw damaged()
  return layers
}

function damaged(cause?: unknown): AgentPodError {
  return new AgentPodError({
    code: 'data_loss',
    reason: 'snapshot.damaged',
    message: 'the content is not a snapshot of the provider docker',
    cause,
  })
}
