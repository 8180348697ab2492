import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'
import { forEach } from '../sandbox/for-each-sandbox.ts'

export const command: Command = {
  usage: 'agentpod stop NAME...',
  examples: ['agentpod stop box', 'agentpod stop box other --json'],
  options: JSON_OPTION,
  words: { min: 1, max: 1000 },
  run: (ctx, parsed) => forEach(ctx, parsed, (sandbox) => sandbox.stop()),
}
