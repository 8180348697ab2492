import { invalid } from '../../core/error.ts'
import { mergeNamed } from '../../workbench/result/merge-run.ts'
import type { NamedBranch } from '../../workbench/result/named-branch.ts'
import { resultTarget, targetName } from '../../workbench/result/result-target.ts'
import { unsignedNote } from '../../workbench/result/unsigned-note.ts'
import { EXECUTABLES_OPTION, UNCOMMITTED_OPTION } from '../args/agent-options.ts'
import { gateChoice } from '../args/gate-choice.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command } from '../command.ts'
import { showApplied } from '../output/applied.ts'
import { mergeOptions, mergeShown } from '../runs/merge-shown.ts'

export const command: Command = {
  usage: 'agentpod merge [RUN | BRANCH] [--squash] [--with-executables] [--with-uncommitted]',
  examples: [
    'agentpod merge                    merge the last run into the current branch',
    'agentpod merge claude-2 --squash  as one commit',
  ],
  options: {
    squash: { help: 'make one commit instead of a merge' },
    ...EXECUTABLES_OPTION,
    ...UNCOMMITTED_OPTION,
    ...JSON_OPTION,
  },
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    const target = await resultTarget(ctx, parsed.words[0])
    if (target.kind === 'branch') checkWhole(parsed, target.branch)
    const o = mergeOptions(parsed)
    const { merged, branch } =
      target.kind === 'run'
        ? await mergeShown(ctx, target.finder, target.run, o)
        : { merged: await mergeNamed(ctx, target.repo, target.branch, o), branch: target.branch.name }
    if (parsed.has('json')) ctx.terminal.out(JSON.stringify({ run: targetName(target), branch, ...merged }))
    else {
      showApplied(ctx.terminal, merged, false)
      if (merged.commit !== undefined)
        ctx.terminal.say(`merged ${ctx.terminal.bold(branch)} as ${merged.commit.slice(0, 12)}`)
      if (merged.commit !== undefined && merged.hasStart)
        ctx.terminal.say('files that were uncommitted when the run began are committed with it')
      const unsigned =
        merged.commit === undefined
          ? undefined
          : await unsignedNote(target.repo, 'git commit --amend --no-edit -S')
      if (unsigned !== undefined) ctx.terminal.say(ctx.terminal.dim(`note: ${unsigned}`))
    }
    return 0
  },
}

/** Files that were left out of a branch are only in the result of its run. */
function checkWhole(parsed: Parsed, { name, run }: NamedBranch): void {
  if (gateChoice(parsed) === 'ask') return
  throw invalid(
    'option.executables',
    `${name} is a branch and is merged as it is: --with-executables and --take need a run`,
    run === undefined ? 'leave the option out' : `name the run: agentpod merge ${run} --with-executables`,
  )
}
