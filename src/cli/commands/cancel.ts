import type { RunInfo } from '../../client/runs.ts'
import { runFinder } from '../../workbench/run/find-run.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod cancel RUN...',
  examples: [
    'agentpod cancel claude-2          its changes so far are kept',
    'agentpod cancel run4f2k run9ab3',
  ],
  options: JSON_OPTION,
  words: { min: 1, max: 1000 },
  async run(ctx, parsed) {
    const { find } = await runFinder(ctx)
    const done: RunInfo[] = []
    for (const word of parsed.words) {
      const run = await find(word)
      const wasEnded = run.info.state === 'ended'
      done.push((await run.cancel()).info)
      if (!parsed.has('json')) ctx.terminal.out(`${run.id} ${wasEnded ? 'had ended already' : 'is canceled'}`)
    }
    if (parsed.has('json')) ctx.terminal.out(JSON.stringify(done))
    return 0
  },
}
