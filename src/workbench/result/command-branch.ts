/** Makes a branch of what a command changed in a copy of a repository. */
import { existsSync } from 'node:fs'
import { freeBranchName, slugOf } from '../../sync/git/branch/branch-name.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import { receiveResult } from '../../sync/git/result/receive.ts'
import type { TakenResult } from '../../sync/git/result/take-result.ts'
import { replaceControls } from '../../util/hidden-characters.ts'
import { shellWord } from '../../util/shell/shell-word.ts'
import type { PreparedRepository } from '../copy/prepare-repository.ts'
import type { BranchChanges, BringBackOptions } from '../copy/project-copy.ts'
import { startObjects } from '../project/project-state.ts'
import { branchTemplate } from '../run/branch-template.ts'
import type { Workbench } from '../workbench.ts'
import { COMMAND_TRAILER } from './named-branch.ts'
import { makeResultBranch } from './result-branch.ts'

export interface CommandResult extends BringBackOptions {
  readonly project: PreparedRepository['project']
  readonly result: TakenResult
  /** The pack of the result. */
  readonly file: string
  /** A directory for temporary files, which the caller removes. */
  readonly scratch: string
  /** Whether the copy had no uncommitted files. */
  readonly isCommitted: boolean
}

export async function makeCommandBranch(
  bench: Workbench,
  repo: Repository,
  o: CommandResult,
): Promise<BranchChanges> {
  const { project, result } = o
  const start = startObjects(bench.home, project.key, project.tree)
  const received = await receiveResult(repo, {
    tree: project.tree,
    commit: project.commit,
    expected: result.tree,
    pack: o.file,
    scratch: o.scratch,
    alsoObjects: existsSync(start) ? [start] : [],
  })
  const command = o.command.map(shellWord).join(' ')
  const template = branchTemplate(bench.home, repo.root, o.template)
  const { branch, leftOut } = await makeResultBranch(bench, repo, received, {
    by: 'it',
    withGated: o.withGated ?? 'ask',
    message: messageOf(command, o.isCommitted),
    startMessage: 'Uncommitted files before the command ran',
    name: () => freeBranchName(repo, template, { slug: slugOf(command), agent: 'run', n: 1 }, 'number'),
  })
  return {
    kind: 'branch',
    branch: branch?.name,
    changes: received.changes,
    notes: received.notes,
    gated: leftOut,
    tooLarge: result.tooLarge.map(({ path }) => path),
    unusable: result.leftOut,
  }
}

/** `agentpod diff`, `apply` and `merge` recognise the branch by the trailer in the last line. */
function messageOf(command: string, isCommitted: boolean): string {
  const line = replaceControls(command, ' ')
  return [
    `Run ${line.slice(0, 68)}`,
    `What this command changed in a sandbox:\n\n    ${line.slice(0, 2000)}`,
    `${COMMAND_TRAILER}: ${isCommitted ? 'committed' : 'uncommitted'}`,
  ].join('\n\n')
}
