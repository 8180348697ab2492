import { invalid } from '../../core/error.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod audit [--network] [--after SEQ]',
  examples: [
    'agentpod audit > audit.jsonl',
    'agentpod audit --network > network.jsonl        every network decision of every sandbox',
    'agentpod audit --after 1200                     only newer entries than the last export',
  ],
  options: {
    network: { help: 'the network log instead of the audit log' },
    after: { value: 'SEQ', help: 'only entries with a greater seq' },
  },
  words: { min: 0, max: 0 },
  async run({ client, terminal }, parsed) {
    const text = parsed.value('after') ?? '0'
    if (!/^\d{1,15}$/.test(text)) throw invalid('option.after', '--after is a whole number')
    const pod = await client()
    for (let after = Number(text); ; ) {
      const page = parsed.has('network') ? await pod.networkAudit(after) : await pod.audit(after)
      for (const entry of page) terminal.out(JSON.stringify(entry))
      const last = page.at(-1)
      if (!last) return 0
      after = last.seq
    }
  },
}
