/**
 * Layers, snapshots and volumes in podhost. Layers and snapshots are imported and exported as files in one
 * directory.
 */
import { createReadStream, createWriteStream } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { CallOptions } from '../../core/call.ts'
import { parseSnapshotId, parseVolumeId, type SnapshotId, type VolumeId } from '../../core/id.ts'
import type { Layers, Packed, Snapshots, Volumes } from '../../core/provider.ts'
import { randomWord, systemRandom } from '../../util/random.ts'
import type { Podhost } from './podhost.ts'
import {
  parseAlbum,
  parseKept,
  parsePacked,
  parseSandboxChanges,
  parseStoredVolume,
  parseVolumePage,
  parseVolumeStats,
} from './protocol.ts'
import { layersOf, layersRoot, rootArgs, runtimeArgs } from './root.ts'

/** Reads page after page; `read` returns the `after` of the next page, or undefined. */
export async function eachPage(read: (after: { after?: string }) => Promise<string>): Promise<void> {
  let next = await read({})
  while (next !== '') next = await read({ after: next })
}

export function localLayers(podhost: Podhost, exchange: string): Layers {
  return {
    async has(digest, o) {
      const { layers: found } = await podhost.call('layer.list', {}, o)
      return (found as { digest?: unknown }[]).some((layer) => layer.digest === digest)
    },
    async import(digest, content, o) {
      await handedOver(exchange, content, o, (file) => podhost.call('layer.import', { digest, file }, o))
    },
    async remove(digest, o) {
      await podhost.call('layer.remove', { digest }, o)
    },
    export: (digest, o) => takenOver(exchange, (file) => podhost.call('layer.export', { digest, file }, o)),
    root: layersRoot,
    of: layersOf,
  }
}

/** The snapshots of sandboxes on one runtime: each provider sees its own only. */
export function localSnapshots(podhost: Podhost, exchange: string, runtime: string): Snapshots {
  return {
    async create(id, sandboxId, owner, o) {
      const memory = o.hasMemory ? { memory: true } : {}
      return parseKept(await podhost.call('snapshot.create', { id, owner, sandbox: sandboxId, ...memory }, o))
    },
    async list(owner, o) {
      const listed: SnapshotId[] = []
      await eachPage(async (after) => {
        const page = parseAlbum(await podhost.call('snapshot.list', after, o))
        for (const found of page.snapshots)
          if (found.owner === owner && found.runtime === runtime) listed.push(parseSnapshotId(found.id))
        return page.next
      })
      return listed
    },
    async remove(id, o) {
      await podhost.call('snapshot.remove', { id }, o)
    },
    async changes(id, path, o) {
      return parseSandboxChanges(await podhost.call('sandbox.changes', { id, path }, o))
    },
    export: (id, o) => takenOver(exchange, (file) => podhost.call('snapshot.export', { id, file }, o)),
    import(id, owner, { content, digest, root }, o) {
      const args = { id, owner, root: rootArgs(root), digest, ...runtimeArgs(runtime) }
      return handedOver(exchange, content, o, async (file) =>
        parseKept(await podhost.call('snapshot.import', { ...args, file }, o)),
      )
    },
  }
}

export function localVolumes(podhost: Podhost): Volumes {
  return {
    async create(id, owner, sizeBytes, o) {
      return parseStoredVolume(await podhost.call('volume.create', { id, owner, sizeBytes }, o))
    },
    async list(owner, o) {
      const listed: VolumeId[] = []
      await eachPage(async (after) => {
        const page = parseVolumePage(await podhost.call('volume.list', after, o))
        for (const found of page.volumes) if (found.owner === owner) listed.push(parseVolumeId(found.id))
        return page.next
      })
      return listed
    },
    async remove(id, o) {
      await podhost.call('volume.remove', { id }, o)
    },
    async stats(id, o) {
      return parseVolumeStats(await podhost.call('volume.stats', { id }, o))
    },
  }
}

/** The server removes files with this name that an earlier process left. */
function newName(): string {
  return `snapshot-${randomWord(systemRandom, 16)}.exchange`
}

/** Writes a stream to a file for podhost. */
async function handedOver<T>(
  exchange: string,
  content: Readable,
  o: CallOptions,
  take: (file: string) => Promise<T>,
): Promise<T> {
  const file = newName()
  const path = join(exchange, file)
  try {
    await pipeline(content, createWriteStream(path, { flags: 'wx', mode: 0o600 }), { signal: o.signal })
    return await take(file)
  } finally {
    content.destroy()
    await rm(path, { force: true })
  }
}

/** Streams a file that podhost wrote, and removes it at the end. */
async function takenOver(exchange: string, write: (file: string) => Promise<unknown>): Promise<Packed> {
  const file = newName()
  const path = join(exchange, file)
  try {
    const packed = parsePacked(await write(file))
    const content = createReadStream(path)
    content.once('close', () => void rm(path, { force: true }))
    return { ...packed, content }
  } catch (error) {
    await rm(path, { force: true })
    throw error
  }
}
