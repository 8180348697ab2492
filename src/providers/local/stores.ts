/** What podhost keeps beside sandboxes: layers to stand on, and snapshots of files. */
import { parseSnapshotId, type SnapshotId } from '../../core/id.ts'
import type { Layers, Snapshots } from '../../core/provider.ts'
import type { Podhost } from './podhost.ts'
import { parseAlbum, parseKept, parsePacked, rootArgs } from './protocol.ts'

/** Asks for page after page; `read` answers with the `after` of the next one, or with nothing. */
export async function eachPage(read: (after: { after?: string }) => Promise<string>): Promise<void> {
  let next = await read({})
  while (next !== '') next = await read({ after: next })
}

export function layers(podhost: Podhost): Layers {
  return {
    async has(digest, o) {
      const { layers: found } = await podhost.call('layer.list', {}, o)
      return (found as { digest?: unknown }[]).some((layer) => layer.digest === digest)
    },
    async import(digest, file, o) {
      await podhost.call('layer.import', { digest, file }, o)
    },
    async remove(digest, o) {
      await podhost.call('layer.remove', { digest }, o)
    },
    async export(digest, file, o) {
      return parsePacked(await podhost.call('layer.export', { digest, file }, o))
    },
  }
}

export function snapshots(podhost: Podhost): Snapshots {
  return {
    async create(id, sandboxId, owner, o) {
      return parseKept(await podhost.call('snapshot.create', { id, owner, sandbox: sandboxId }, o))
    },
    async list(owner, o) {
      const listed: SnapshotId[] = []
      await eachPage(async (after) => {
        const page = parseAlbum(await podhost.call('snapshot.list', after, o))
        for (const found of page.snapshots) if (found.owner === owner) listed.push(parseSnapshotId(found.id))
        return page.next
      })
      return listed
    },
    async remove(id, o) {
      await podhost.call('snapshot.remove', { id }, o)
    },
    async export(id, file, o) {
      return parsePacked(await podhost.call('snapshot.export', { id, file }, o))
    },
    async import(id, owner, { file, digest, root }, o) {
      const args = { id, owner, root: rootArgs(root), file, digest }
      return parseKept(await podhost.call('snapshot.import', args, o))
    },
  }
}
