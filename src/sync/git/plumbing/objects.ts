/** Reads trees and blobs. */
import { AgentPodError } from '../../../core/error.ts'
import type { ByteName } from './byte-names.ts'
import { type GitOptions, git } from './git.ts'
import { OBJECT_ID, type ObjectId } from './repository.ts'

const MOST_TREE_BYTES = 256 * 1024 * 1024
const TREE_MODE = '40000'
/** An id, a type and a size. */
const LONGEST_LINE = 100

export interface Leaf {
  readonly mode: string
  readonly id: ObjectId
}

export interface TreeEntry extends Leaf {
  readonly name: ByteName
  readonly isTree: boolean
}

export interface ObjectInfo {
  readonly type: string
  readonly sizeBytes: number
}

/** Type and size of each object. A missing object is not in the result. */
export async function objectInfo(
  o: GitOptions,
  ids: Iterable<ObjectId>,
): Promise<ReadonlyMap<ObjectId, ObjectInfo>> {
  const asked = [...new Set(ids)]
  const found = new Map<ObjectId, ObjectInfo>()
  if (asked.length === 0) return found
  const answer = await git(['cat-file', '--batch-check'], { ...o, input: `${asked.join('\n')}\n` })
  for (const line of answer.stdout.toString('latin1').split('\n')) {
    const [, id, type, size] = /^([0-9a-f]{40}) (\w+) (\d+)$/.exec(line) ?? []
    if (id && type) found.set(id, { type, sizeBytes: Number(size) })
  }
  return found
}

/** Contents of the objects that have this type and fit the limits. Others are not in the result. */
export async function readObjects(
  o: GitOptions,
  ids: Iterable<ObjectId>,
  { type, mostBytes, mostBytesInAll }: { type: string; mostBytes: number; mostBytesInAll: number },
): Promise<ReadonlyMap<ObjectId, Buffer>> {
  let left = mostBytesInAll
  const wanted: ObjectId[] = []
  for (const [id, info] of await objectInfo(o, ids)) {
    if (info.type !== type || info.sizeBytes > mostBytes || info.sizeBytes > left) continue
    left -= info.sizeBytes
    wanted.push(id)
  }
  return readBatch(o, wanted, type, mostBytesInAll)
}

async function readBatch(
  o: GitOptions,
  ids: readonly ObjectId[],
  type: string,
  mostBytes: number,
): Promise<ReadonlyMap<ObjectId, Buffer>> {
  const found = new Map<ObjectId, Buffer>()
  if (ids.length === 0) return found
  const most = Math.min(mostBytes, Number.MAX_SAFE_INTEGER / 2) + ids.length * LONGEST_LINE
  const { stdout } = await git(['cat-file', '--batch'], {
    ...o,
    input: `${ids.join('\n')}\n`,
    maxBytes: most,
  })
  for (let at = 0; at < stdout.length; ) {
    const end = stdout.indexOf(0x0a, at)
    if (end < 0) break
    const [, id = '', kind, size] =
      /^([0-9a-f]{40}) (\w+) (\d+)$/.exec(stdout.toString('latin1', at, end)) ?? []
    const content = stdout.subarray(end + 1, end + 1 + Number(size ?? 0))
    if (kind === type && content.length === Number(size)) found.set(id, content)
    // A missing object is a line without content.
    at = size === undefined ? end + 1 : end + 2 + Number(size)
  }
  return found
}

/** `data_loss` if one of them is missing or is not a tree. */
export async function readTrees(
  o: GitOptions,
  ids: Iterable<ObjectId>,
): Promise<ReadonlyMap<ObjectId, readonly TreeEntry[]>> {
  const asked = [...new Set(ids)]
  const contents = await readBatch(o, asked, 'tree', MOST_TREE_BYTES)
  return new Map(
    asked.map((id) => {
      const content = contents.get(id)
      if (!content)
        throw new AgentPodError({
          code: 'data_loss',
          reason: 'tree.missing',
          message: `the tree ${id} is missing`,
        })
      return [id, parseTree(content)]
    }),
  )
}

/** `data_loss` if it is malformed. */
export function parseTree(content: Buffer): TreeEntry[] {
  const entries: TreeEntry[] = []
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(0x20, at)
    const zero = content.indexOf(0, at)
    const id = content.toString('hex', zero + 1, zero + 21)
    const mode = content.toString('latin1', at, space)
    const name = content.toString('latin1', space + 1, zero)
    if (space < at || zero < space || name === '' || !OBJECT_ID.test(id) || !/^[0-7]{5,6}$/.test(mode))
      throw new AgentPodError({
        code: 'data_loss',
        reason: 'tree.malformed',
        message: 'a tree is malformed',
      })
    entries.push({ mode, name, id, isTree: mode === TREE_MODE })
    at = zero + 21
  }
  return entries
}
