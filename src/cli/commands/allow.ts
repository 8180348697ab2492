import { JSON_OPTION } from '../args/options.ts'
import { privateRule } from '../args/values.ts'
import type { Command } from '../command.ts'
import { printable } from '../output/terminal.ts'

export const command: Command = {
  usage: 'agentpod allow [--deny | --forget] NAME RULE...',
  examples: [
    'agentpod allow box example.com',
    'agentpod allow box "*.example.com:8443"',
    'agentpod allow box "example.com/api/**"',
    'agentpod allow --forget box example.com        take it back',
    'agentpod allow --deny box tracker.example.com  refuse it, also below a wider rule',
    'agentpod allow --private box mirror.internal   a server of your own network',
  ],
  options: {
    deny: { help: 'refuse these hosts instead' },
    forget: { help: 'take back what was allowed or denied about these hosts' },
    private: { help: 'they may be on private addresses' },
    ...JSON_OPTION,
  },
  words: { min: 2, max: 100 },
  async run({ client, terminal }, parsed) {
    const [name = '', ...rules] = parsed.words
    const sandbox = await (await client()).get(name)
    const allow = parsed.has('private') ? rules.map(privateRule) : rules
    const change = parsed.has('forget') ? { forget: rules } : parsed.has('deny') ? { deny: rules } : { allow }
    const network = await sandbox.changeNetwork(change)
    if (parsed.has('json')) terminal.out(JSON.stringify(network))
    else {
      const verb = parsed.has('forget') ? 'forgotten' : parsed.has('deny') ? 'denied' : 'allowed'
      terminal.say(`${verb}: ${rules.map(printable).join(', ')}`)
    }
    return 0
  },
}
