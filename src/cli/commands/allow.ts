import { showHidden } from '../../util/hidden-characters.ts'
import { privateRule } from '../../workbench/network/network-options.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod allow [--deny | --forget] NAME RULE...',
  examples: [
    'agentpod allow box example.com',
    'agentpod allow box "*.example.com:8443"',
    'agentpod allow box "example.com/api/**"',
    'agentpod allow --forget box example.com         remove the rule',
    'agentpod allow --deny box tracker.example.com  deny it, even under a wider rule',
    'agentpod allow --private box mirror.internal   a host in your network',
  ],
  options: {
    deny: { help: 'deny these hosts instead' },
    forget: { help: 'remove the rules about these hosts' },
    private: { help: 'they may resolve to private addresses' },
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
      terminal.say(`${verb}: ${rules.map(showHidden).join(', ')}`)
    }
    return 0
  },
}
