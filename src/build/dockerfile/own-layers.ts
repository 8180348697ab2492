/**
 * Layers that steps mount besides those of the build: podfiles, which changes files inside, and the build
 * context. A provider keeps the first one; the second one is removed after the build.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Readable } from 'node:stream'
import type { Provider, RootRef } from '../../core/provider.ts'
import { ignore, type Log } from '../../telemetry/log.ts'
import { packTar } from '../../util/file/tar-writer.ts'
import { ReferenceCounts } from '../../util/reference-counts.ts'

const ASK = { timeoutMs: 20_000 }
const IMPORT = { timeoutMs: 15 * 60_000 }

export interface OwnLayersParts {
  /** The program. */
  readonly podfiles: string
  readonly log: Log
  /** Contexts that are stored now, so that a server that died removes them at its next start. */
  readonly kept: { get(): readonly string[]; set(digests: readonly string[]): void }
}

export class OwnLayers {
  readonly #parts: OwnLayersParts
  readonly #contexts = new ReferenceCounts()
  #program: Promise<{ readonly digest: string; readonly tar: Buffer }> | undefined

  constructor(parts: OwnLayersParts) {
    this.#parts = parts
  }

  /** Removes contexts that an earlier server process left. */
  async sweep(provider: Provider): Promise<void> {
    for (const digest of this.#parts.kept.get())
      if (this.#contexts.of(digest) === 0) await this.#remove(provider, digest)
  }

  async program({ layers }: Provider): Promise<RootRef> {
    this.#program ??= packProgram(this.#parts.podfiles)
    const { digest, tar } = await this.#program
    if (layers && !(await layers.has(digest, ASK))) await layers.import(digest, Readable.from([tar]), IMPORT)
    return layers?.root([digest]) ?? {}
  }

  /** The context as a root, until the release. The same archive is stored once. */
  async context(
    provider: Provider,
    digest: string,
    open: () => Readable,
  ): Promise<{ readonly root: RootRef; release(): Promise<void> }> {
    const { layers } = provider
    const { kept } = this.#parts
    const leave = this.#contexts.hold(digest)
    const release = async (): Promise<void> => {
      if (leave()) await this.#remove(provider, digest)
    }
    try {
      kept.set([...new Set([...kept.get(), digest])])
      await layers?.import(digest, open(), IMPORT)
      return { root: layers?.root([digest]) ?? {}, release }
    } catch (error) {
      await release()
      throw error
    }
  }

  async #remove({ layers }: Provider, digest: string): Promise<void> {
    const { kept, log } = this.#parts
    try {
      await layers?.remove(digest, ASK)
      kept.set(kept.get().filter((one) => one !== digest))
    } catch (error) {
      ignore(log, error, 'a build context stays until the next build')
    }
  }
}

async function packProgram(file: string): Promise<{ readonly digest: string; readonly tar: Buffer }> {
  const tar = packTar([{ path: 'podfiles', mode: 0o755, content: await readFile(file) }])
  return { digest: createHash('sha256').update(tar).digest('hex'), tar }
}
