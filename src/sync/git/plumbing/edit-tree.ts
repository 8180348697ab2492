/** Makes a tree from another one, with some files replaced or removed. */
import { randomWord, systemRandom } from '../../../util/random.ts'
import { type ByteName, bytesOf } from './byte-names.ts'
import { type GitOptions, git, gitFailed, gitText } from './git.ts'
import type { Leaf } from './objects.ts'
import type { ObjectId } from './repository.ts'

const NOTHING = '0'.repeat(40)

export interface Edit {
  readonly raw: ByteName
  /** Undefined removes the file. */
  readonly leaf: Leaf | undefined
}

/** Uses no working tree and no index of the user. `o` runs git in a quarantine. */
export async function editTree(o: GitOptions, tree: ObjectId, edits: readonly Edit[]): Promise<ObjectId> {
  if (edits.length === 0) return tree
  const index = `${o.variables?.['GIT_DIR'] ?? ''}/index-${randomWord(systemRandom, 8)}`
  const own = { ...o, variables: { ...o.variables, GIT_INDEX_FILE: index } }
  await gitText(['read-tree', tree], own)
  const args = ['update-index', '-z', '--index-info']
  const answer = await git(args, { ...own, input: indexInfo(edits) })
  if (answer.exitCode !== 0) throw gitFailed(args, answer)
  return gitText(['write-tree'], own)
}

/** Input for `update-index --index-info`. Removals come first, so that a file can replace a directory. */
export function indexInfo(edits: readonly Edit[]): Buffer {
  const lines = edits
    .toSorted((a, b) => Number(a.leaf !== undefined) - Number(b.leaf !== undefined))
    .map(({ raw, leaf }) => `${leaf?.mode ?? '0'} ${leaf?.id ?? NOTHING}\t${raw}\0`)
  return bytesOf(lines.join(''))
}
