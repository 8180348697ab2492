import type { Run } from '../../client/runs.ts'
import { type RunFinder, runFinder } from '../../workbench/run/find-run.ts'
import { BRANCH_OPTION, EXECUTABLES_OPTION } from '../args/agent-options.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'
import { watchRuns } from '../runs/watch-runs.ts'

export const command: Command = {
  usage: 'agentpod follow [RUN...]',
  examples: [
    'agentpod follow                   the running agents of this repository, or the last run',
    'agentpod follow claude-2',
    'agentpod follow --json run4f2k    a line of JSON for each event',
  ],
  options: { ...BRANCH_OPTION, ...EXECUTABLES_OPTION, ...JSON_OPTION },
  words: { min: 0, max: 32 },
  async run(ctx, parsed) {
    const finder = await runFinder(ctx)
    const runs = await chosen(finder, parsed.words)
    // The watching user did not necessarily start the run.
    return watchRuns(ctx, parsed, finder.repo, runs, { whenInterrupted: 'leave' })
  },
}

async function chosen({ runs, find }: RunFinder, words: readonly string[]): Promise<Run[]> {
  const named: Run[] = []
  for (const word of words) named.push(await find(word))
  if (named.length > 0) return named
  const atWork = runs.filter(({ info }) => info.state !== 'ended').toReversed()
  return atWork.length > 0 ? atWork : [await find(undefined)]
}
