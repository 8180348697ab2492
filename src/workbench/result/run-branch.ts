/** Makes a branch of what a run left, in the user's repository. */
import type { Run, RunEventInfo } from '../../client/runs.ts'
import { DEFAULT_BRANCH, freeBranchName, prefixOf, slugOf } from '../../sync/git/branch/branch-name.ts'
import type { GatedFile } from '../../sync/git/gate/gate.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import type { Received } from '../../sync/git/result/receive.ts'
import { labelOf } from '../run/run-label.ts'
import { turnBase } from '../run/update-run.ts'
import type { Workbench } from '../workbench.ts'
import type { GateChoice } from './choose-gated.ts'
import { commitMessage } from './commit-message.ts'
import { newestOf, runBranches } from './list-run-branches.ts'
import { startSubject } from './named-branch.ts'
import { openResult } from './open-result.ts'
import { makeResultBranch } from './result-branch.ts'
import { unsignedNote } from './unsigned-note.ts'

/** As much of a run as a branch needs. */
export type EndedRun = Pick<Run, 'id' | 'info' | 'events' | 'result'>

export interface RunBranchOptions {
  /** How branches are named, such as `agentpod/{slug}-{agent}-{n}`. */
  readonly template?: string | undefined
  /** The name of this branch, instead of one from the template. */
  readonly name?: string | undefined
  /** Whether files that would run later on this machine become part of it. Asks by default. */
  readonly withGated?: GateChoice | undefined
  /** Make a branch even if one of the same result exists. */
  readonly isAgain?: boolean | undefined
}

export interface BroughtBack {
  /** Undefined when the run changed nothing, or every change was left out. */
  readonly branch: string | undefined
  /** Whether the branch existed before. */
  readonly isOld: boolean
  /** Files that would run later on this machine and are not in the branch. */
  readonly leftOut: readonly GatedFile[]
  readonly received: Pick<Received, 'changes' | 'gate' | 'notes'> | undefined
  /** A sentence for a user whose git signs commits, which AgentPod does not. */
  readonly unsigned: string | undefined
}

const NOTHING: BroughtBack = {
  branch: undefined,
  isOld: false,
  leftOut: [],
  received: undefined,
  unsigned: undefined,
}

export async function makeRunBranch(
  bench: Workbench,
  repo: Repository,
  run: EndedRun,
  o: RunBranchOptions = {},
): Promise<BroughtBack> {
  const template = o.template ?? DEFAULT_BRANCH
  const branches = await runBranches(repo, prefixOf(template))
  const tree = run.info.result?.tree
  const newest = newestOf(branches, run.id, tree)
  // Found by the trailers of its commit, so a renamed branch is found too.
  if (!o.isAgain && newest && newest.result === tree) return { ...NOTHING, branch: newest.name, isOld: true }
  const earlier = newestOf(
    branches.filter(({ result }) => result !== tree),
    run.id,
  )
  using open = await openResult(bench, repo, run, await turnBase(repo, run.id, earlier?.commit))
  if (!open) return NOTHING
  const { received } = open
  const { prompt, agent, number, turn } = run.info
  const words = { slug: slugOf(prompt), agent, n: number, turn }
  const { branch, leftOut } = await makeResultBranch(bench, repo, received, {
    by: labelOf(run.info),
    withGated: o.withGated ?? 'ask',
    message: commitMessage(run.info, await allEvents(run)),
    startMessage: startSubject(run.id),
    name: async () => o.name ?? (await freeBranchName(repo, template, words, 'version')),
    isNamed: o.name !== undefined,
  })
  const unsigned = branch && (await unsignedNote(repo, signCommand(branch.name)))
  return { branch: branch?.name, isOld: false, leftOut, received, unsigned }
}

const MOST_PAGES = 100

export async function allEvents(run: Pick<Run, 'events'>): Promise<RunEventInfo[]> {
  const events: RunEventInfo[] = []
  for (let page = 0; page < MOST_PAGES; page++) {
    const more = await run.events(events.at(-1)?.seq ?? 0)
    if (more.length === 0) break
    events.push(...more)
  }
  return events
}

function signCommand(branch: string): string {
  return `git switch ${branch} && git commit --amend --no-edit -S`
}
