import { EXECUTABLES_OPTION } from '../args/agent-options.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'
import { mergeCommand, mergeRun } from '../merge-run.ts'
import { resultTarget, targetName } from '../result-target.ts'
import { showApplied } from './apply.ts'

export const command: Command = {
  usage: 'agentpod merge [RUN | BRANCH] [--squash] [--with-executables]',
  examples: [
    'agentpod merge                    the last run, into the branch you are on',
    'agentpod merge claude-2 --squash  one commit, without the branch in the history',
  ],
  options: {
    squash: { help: 'one commit of yours, instead of a merge' },
    ...EXECUTABLES_OPTION,
    ...JSON_OPTION,
  },
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    const target = await resultTarget(ctx, parsed.words[0])
    const { merged, branch } =
      target.kind === 'run'
        ? await mergeRun(ctx, parsed, target.finder, target.run)
        : { merged: await mergeCommand(ctx, parsed, target.repo, target.branch), branch: target.branch.name }
    if (parsed.has('json')) ctx.terminal.out(JSON.stringify({ run: targetName(target), branch, ...merged }))
    else {
      showApplied(ctx, merged, false)
      if (merged.commit !== undefined)
        ctx.terminal.say(`merged ${ctx.terminal.bold(branch)} as ${merged.commit.slice(0, 12)}`)
      if (merged.commit !== undefined && merged.hasStart)
        ctx.terminal.say('files that you had not committed when it began are committed with it')
    }
    return 0
  },
}
