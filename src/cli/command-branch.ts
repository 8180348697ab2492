/** Branches of commands, which no run stands behind: the branch itself is all there is to know. */
import { git, gitText } from '../sync/git/git.ts'
import { userGit } from '../sync/git/quarantine.ts'
import { lookAt } from '../sync/git/receive.ts'
import { EMPTY_TREE, OBJECT_ID, type ObjectId, type Repository } from '../sync/git/repository.ts'
import type { CommandContext } from './command.ts'
import { projectKey, scratchOf } from './project-objects.ts'
import type { OpenResult } from './run-result.ts'

export interface CommandBranch {
  readonly name: string
  readonly tip: ObjectId
  /** What the command began with, and came to. */
  readonly from: ObjectId
  readonly tree: ObjectId
  /** The tree that it began with, where that was not what is committed. */
  readonly start: ObjectId | undefined
}

/** In the message of its commit. */
export const COMMAND_TRAILER = 'AgentPod-Command'

/** Undefined where the word is no branch, or one that a command did not make. */
export async function commandBranch(repo: Repository, word: string): Promise<CommandBranch | undefined> {
  const own = userGit(repo)
  const found = await git(
    [
      'for-each-ref',
      `--format=%(objectname) %(parent) %(contents:trailers:key=${COMMAND_TRAILER},valueonly)`,
      `refs/heads/${word}`,
    ],
    own,
  )
  const [, tip = '', parents = '', kind = ''] =
    /^(\w{40}) ((?:\w{40})?) (\w+)\n*$/.exec(found.stdout.toString('utf8')) ?? []
  if (!OBJECT_ID.test(tip) || kind === '') return undefined
  const tree = await gitText(['rev-parse', `${tip}^{tree}`], own)
  const from = parents === '' ? EMPTY_TREE : await gitText(['rev-parse', `${parents}^{tree}`], own)
  return { name: word, tip, from, tree, start: kind === 'uncommitted' ? from : undefined }
}

export async function openBranch(
  { home }: Pick<CommandContext, 'home'>,
  repo: Repository,
  { from, tree, tip }: CommandBranch,
): Promise<OpenResult> {
  const scratch = scratchOf(home, projectKey(repo.root))
  const close = (): void => scratch[Symbol.dispose]()
  try {
    const received = await lookAt(repo, { tree: from, commit: tip, expected: tree, scratch: scratch.path })
    return { received, objects: [], [Symbol.dispose]: close }
  } catch (error) {
    close()
    throw error
  }
}
