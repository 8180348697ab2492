import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'
import { forEach } from '../sandbox/for-each-sandbox.ts'

export const command: Command = {
  usage: 'agentpod pause [--to-disk] NAME...',
  examples: ['agentpod pause box', 'agentpod pause --to-disk box', 'agentpod pause box other --json'],
  options: {
    'to-disk': {
      help: 'write its memory to disk: it takes no memory then, and continues even after a reboot (gVisor and virtual machines)',
    },
    ...JSON_OPTION,
  },
  words: { min: 1, max: 1000 },
  run: (ctx, parsed) =>
    forEach(ctx, parsed, (sandbox) => sandbox.pause(parsed.has('to-disk') ? { toDisk: true } : {})),
}
