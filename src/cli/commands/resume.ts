import { JSON_OPTION, WAKE_OPTIONS, wakeOptions } from '../args/options.ts'
import type { Command } from '../command.ts'
import { forEach } from '../sandbox/for-each-sandbox.ts'

export const command: Command = {
  usage: 'agentpod resume [--timeout TIME] NAME...',
  examples: ['agentpod resume box', 'agentpod resume --timeout 30m box'],
  options: { ...WAKE_OPTIONS, ...JSON_OPTION },
  words: { min: 1, max: 1000 },
  run: (ctx, parsed) => forEach(ctx, parsed, (sandbox) => sandbox.resume(wakeOptions(parsed))),
}
