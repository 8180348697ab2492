/** Makes a branch of a received result, without the files that the user leaves out. */
import { isAgentPodError } from '../../core/error.ts'
import { type Branch, makeBranch } from '../../sync/git/branch/make-branch.ts'
import type { GatedFile } from '../../sync/git/gate/gate.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import type { Received } from '../../sync/git/result/receive.ts'
import { systemClock } from '../../util/clock.ts'
import type { Workbench } from '../workbench.ts'
import { chooseGated, type GateChoice } from './choose-gated.ts'

export interface ResultBranchOptions {
  /** Who changed the files, for the question about gated ones. */
  readonly by: string
  readonly withGated: GateChoice
  readonly message: string
  /** The subject of the commit with files that were uncommitted at the start. */
  readonly startMessage: string
  /** A name that no branch has yet. */
  name(): Promise<string>
  /** Whether the user chose the name: then a branch that has it is an error. */
  readonly isNamed?: boolean | undefined
}

export interface ResultBranch {
  /** Undefined when every change was left out. */
  readonly branch: Branch | undefined
  readonly leftOut: readonly GatedFile[]
}

const MOST_TRIES = 5

export async function makeResultBranch(
  { person }: Workbench,
  repo: Repository,
  received: Received,
  o: ResultBranchOptions,
): Promise<ResultBranch> {
  const leftOut = await chooseGated(person, o.by, received.gate, o.withGated)
  for (let tries = 1; ; tries++) {
    try {
      const branch = await makeBranch(repo, received, {
        name: await o.name(),
        message: o.message,
        // The message names the co-author beside its other trailers: git reads them as one paragraph.
        coAuthor: undefined,
        startMessage: o.startMessage,
        leftOut: leftOut.map(({ path }) => path),
        now: systemClock.now(),
      })
      return { branch, leftOut }
    } catch (error) {
      // Another run took the same name at the same moment.
      if (o.isNamed || tries >= MOST_TRIES || !isAgentPodError(error, 'already_exists')) throw error
    }
  }
}
