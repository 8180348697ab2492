/**
 * The tree of an index, where the index says it (gitformat-index, "Cache tree"). It spares git from reading
 * and writing the whole index.
 */
import type { ObjectId } from '../plumbing/repository.ts'

const CHECKSUM_BYTES = 20
const HEADER_BYTES = 8
const ID_BYTES = 20

/** Undefined if the index does not say, because entries have changed since. */
export function cachedTree(data: Buffer): ObjectId | undefined {
  const end = data.length - CHECKSUM_BYTES
  // The extensions come last. The word may also be in a name, but what follows does not lead to the end.
  for (let at = data.lastIndexOf('TREE'); at > 0; at = data.lastIndexOf('TREE', at - 1))
    if (leadsToEnd(data, at, end)) return rootOf(data.subarray(at + HEADER_BYTES, end))
  return undefined
}

function leadsToEnd(data: Buffer, start: number, end: number): boolean {
  let at = start
  while (at + HEADER_BYTES <= end) {
    if (!/^[A-Z]/.test(data.toString('latin1', at, at + 4))) return false
    at += HEADER_BYTES + data.readUInt32BE(at + 4)
  }
  return at === end
}

/** An empty path, the number of entries, which is negative if they have changed, and of subtrees. */
const ROOT = /^\0\d{1,10} \d{1,10}\n/

function rootOf(content: Buffer): ObjectId | undefined {
  const head = ROOT.exec(content.toString('latin1', 0, 32))?.[0].length
  const id = head === undefined ? '' : content.toString('hex', head, head + ID_BYTES)
  return id.length === 2 * ID_BYTES ? id : undefined
}
