/** Watching runs to their ends, and their branches afterwards. */
import type { Run } from '../client/runs.ts'
import type { Repository } from '../sync/git/repository.ts'
import { branchTemplate } from './agent-settings.ts'
import { gateChoice } from './args/gate-choice.ts'
import type { Parsed } from './args/parse.ts'
import { allEvents, bringBack } from './bring-back.ts'
import type { CommandContext } from './command.ts'
import { exitCodeOfAll } from './exit-code.ts'
import { followRuns } from './follow-runs.ts'
import { projectKey } from './project-objects.ts'

export interface WatchOptions {
  readonly after?: ReadonlyMap<string, number> | undefined
  readonly whenInterrupted?: 'cancel' | 'leave' | undefined
}

/** Answers the exit code. What belongs to another repository is watched, and no branch is made of it here. */
export async function watchRuns(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository | undefined,
  runs: readonly Run[],
  o: WatchOptions = {},
): Promise<number> {
  const isJson = parsed.has('json')
  const ended = await followRuns(ctx, runs, { isJson, ...o })
  for (const run of ended) {
    if (repo && run.info.project?.key === projectKey(repo))
      await bringBack(ctx, repo, run, {
        template: branchTemplate(ctx, parsed, repo.root),
        withGated: gateChoice(parsed),
        isJson,
      })
    else if (run.info.outcome === 'changed')
      ctx.terminal.say(`${run.id} is of another repository: \`agentpod branch make ${run.id}\` there`)
  }
  return exitCodeOfAll(ended.map(({ info }) => info))
}

/** The number of its last event so far. */
export async function lastEvent(run: Run): Promise<number> {
  return (await allEvents(run)).at(-1)?.seq ?? 0
}
