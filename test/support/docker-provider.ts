/** The Docker provider on a daemon of its own, with a small root of this machine's programs in it. */
import { createHash } from 'node:crypto'
import { createReadStream, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type OwnerLabel, parseOwner } from '../../src/core/id.ts'
import type { Provider, RootRef } from '../../src/core/provider.ts'
import { dockerProvider } from '../../src/providers/docker/provider.ts'
import { DockerDaemon } from './docker-daemon.ts'
import { packRoot } from './docker-root.ts'

const CALL = { timeoutMs: 60_000 }
export const PODD = join(import.meta.dirname, '../../dist/bin/podd')

export interface DockerStage {
  readonly daemon: DockerDaemon
  readonly provider: Provider
  readonly owner: OwnerLabel
  readonly root: RootRef
  /** The layer of the root, as a file. */
  readonly rootFile: string
  readonly digest: string
  close(): Promise<void>
}

export async function openDocker(o: { python?: boolean; diskMib?: number } = {}): Promise<DockerStage> {
  const daemon = await DockerDaemon.start(o)
  const owner = parseOwner('contract-one')
  const provider = dockerProvider({ env: daemon.env, poddFile: PODD, owner })
  const close = async (): Promise<void> => {
    provider.close()
    await daemon[Symbol.asyncDispose]()
  }
  try {
    const rootFile = join(daemon.directory, 'root.tar')
    packRoot(rootFile, o)
    const digest = createHash('sha256').update(readFileSync(rootFile)).digest('hex')
    const { layers } = provider
    if (!layers) throw new Error('the provider takes no layers')
    await layers.import(digest, createReadStream(rootFile), CALL)
    return { daemon, provider, owner, root: layers.root([digest]), rootFile, digest, close }
  } catch (error) {
    await close()
    throw error
  }
}
