import { applyResult } from '../../workbench/result/apply-result.ts'
import { openTarget, resultTarget, targetName } from '../../workbench/result/result-target.ts'
import { EXECUTABLES_OPTION } from '../args/agent-options.ts'
import { gateChoice } from '../args/gate-choice.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'
import { showApplied } from '../output/applied.ts'
import { gateLines, nothingIn } from '../output/run-result-lines.ts'

export const command: Command = {
  usage: 'agentpod apply [RUN | BRANCH] [--with-executables | --without-executables] [--check]',
  examples: [
    'agentpod apply                    write the last run into your files, without a commit',
    'agentpod apply claude-2 --check   show what would be written',
  ],
  options: {
    ...EXECUTABLES_OPTION,
    'without-executables': { help: 'leave those files out without asking' },
    check: { help: 'change nothing, and show what would change' },
    ...JSON_OPTION,
  },
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    const { terminal } = ctx
    const target = await resultTarget(ctx, parsed.words[0])
    using open = await openTarget(ctx, target)
    const name = targetName(target)
    const isJson = parsed.has('json')
    if (!open) {
      if (isJson) terminal.out(JSON.stringify({ run: name, written: [], removed: [], merged: [] }))
      else if (target.kind === 'run') terminal.say(nothingIn(target.run.info))
      return 0
    }
    const isCheck = parsed.has('check')
    const { leftOut, ...applied } = await applyResult(ctx, target, open, {
      withGated: gateChoice(parsed),
      isCheck,
    })
    if (isJson)
      terminal.out(JSON.stringify({ run: name, ...applied, leftOut: leftOut.map(({ path }) => path) }))
    else {
      showApplied(terminal, applied, isCheck)
      if (leftOut.length > 0) {
        terminal.say(terminal.bold('left out, because they would run later on this machine:'))
        for (const line of gateLines(terminal, leftOut)) terminal.say(line)
        terminal.say(terminal.dim(`  to take them too: agentpod apply ${name} --with-executables`))
      }
    }
    return 0
  },
}
