import { invalid } from '../../core/error.ts'
import { EXECUTABLES_OPTION, UNCOMMITTED_OPTION } from '../args/agent-options.ts'
import { gateChoice } from '../args/gate-choice.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command } from '../command.ts'
import { mergeNamed, mergeRun } from '../merge-run.ts'
import type { NamedBranch } from '../named-branch.ts'
import { resultTarget, targetName } from '../result-target.ts'
import { unsignedNote } from '../unsigned.ts'
import { showApplied } from './apply.ts'

export const command: Command = {
  usage: 'agentpod merge [RUN | BRANCH] [--squash] [--with-executables] [--with-uncommitted]',
  examples: [
    'agentpod merge                    the last run, into the branch you are on',
    'agentpod merge claude-2 --squash  one commit, without the branch in the history',
  ],
  options: {
    squash: { help: 'one commit of yours, instead of a merge' },
    ...EXECUTABLES_OPTION,
    ...UNCOMMITTED_OPTION,
    ...JSON_OPTION,
  },
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    const target = await resultTarget(ctx, parsed.words[0])
    if (target.kind === 'branch') checkWhole(parsed, target.branch)
    const { merged, branch } =
      target.kind === 'run'
        ? await mergeRun(ctx, parsed, target.finder, target.run)
        : { merged: await mergeNamed(ctx, parsed, target.repo, target.branch), branch: target.branch.name }
    if (parsed.has('json')) ctx.terminal.out(JSON.stringify({ run: targetName(target), branch, ...merged }))
    else {
      showApplied(ctx, merged, false)
      if (merged.commit !== undefined)
        ctx.terminal.say(`merged ${ctx.terminal.bold(branch)} as ${merged.commit.slice(0, 12)}`)
      if (merged.commit !== undefined && merged.hasStart)
        ctx.terminal.say('files that you had not committed when it began are committed with it')
      const unsigned =
        merged.commit === undefined
          ? undefined
          : await unsignedNote(target.repo, 'git commit --amend --no-edit -S')
      if (unsigned !== undefined) ctx.terminal.say(ctx.terminal.dim(`note: ${unsigned}`))
    }
    return 0
  },
}

/** What was left out of a branch is in the result of its run, and nowhere else. */
export function checkWhole(parsed: Parsed, { name, run }: NamedBranch): void {
  if (gateChoice(parsed) === 'ask') return
  throw invalid(
    'option.executables',
    `${name} is a branch, and is taken as it is: --with-executables and --take are for a run`,
    run === undefined ? 'leave the option out' : `name the run: agentpod merge ${run} --with-executables`,
  )
}
