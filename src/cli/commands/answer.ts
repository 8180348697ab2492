import { invalid } from '../../core/error.ts'
import { runFinder } from '../../workbench/run/find-run.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod answer RUN PERMISSION allow|deny',
  examples: ['agentpod answer claude net-7 allow', 'agentpod answer run4f2k toolu_01 deny'],
  options: JSON_OPTION,
  words: { min: 3, max: 3 },
  async run(ctx, parsed) {
    const [ref, permission = '', answer] = parsed.words
    if (answer !== 'allow' && answer !== 'deny')
      throw invalid(
        'words.answer',
        `an answer is allow or deny, not ${JSON.stringify(answer)}`,
        command.usage,
      )
    const run = await (await (await runFinder(ctx)).find(ref)).answer(permission, answer)
    if (parsed.has('json')) ctx.terminal.out(JSON.stringify(run.info))
    else ctx.terminal.say(answer === 'allow' ? 'allowed' : 'denied')
    return 0
  },
}
