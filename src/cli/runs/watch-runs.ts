/** Watches runs to their ends at this terminal, and makes their branches. */
import type { Run } from '../../client/runs.ts'
import type { Repository } from '../../sync/git/plumbing/repository.ts'
import { projectKey } from '../../workbench/project/project-state.ts'
import { allEvents } from '../../workbench/result/run-branch.ts'
import { branchTemplate } from '../../workbench/run/branch-template.ts'
import { gateChoice } from '../args/gate-choice.ts'
import type { Parsed } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'
import { bringBack } from './bring-back.ts'
import { exitCodeOfAll } from './exit-code.ts'
import { followAtTerminal, type TerminalFollowOptions } from './follow-at-terminal.ts'

/** Gives the exit code. A run of another repository is watched, and no branch of it is made here. */
export async function watchRuns(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository | undefined,
  runs: readonly Run[],
  o: Pick<TerminalFollowOptions, 'after' | 'whenInterrupted'> = {},
): Promise<number> {
  const isJson = parsed.has('json')
  const ended = await followAtTerminal(ctx, runs, { isJson, ...o })
  for (const run of ended) {
    if (repo && run.info.project?.key === projectKey(repo))
      await bringBack(ctx, repo, run, {
        template: branchTemplate(ctx.home, repo.root, parsed.value('branch')),
        withGated: gateChoice(parsed),
        isJson,
      })
    else if (run.info.outcome === 'changed')
      ctx.terminal.say(
        `${run.id} belongs to another repository: run \`agentpod branch make ${run.id}\` there`,
      )
  }
  return exitCodeOfAll(ended.map(({ info }) => info))
}

/** The number of the run's last event so far. */
export async function lastEvent(run: Run): Promise<number> {
  return (await allEvents(run)).at(-1)?.seq ?? 0
}
