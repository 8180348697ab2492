import { JSON_OPTION } from '../args/options.ts'
import { parseDuration } from '../args/values.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod extend NAME TIME',
  examples: ['agentpod extend box 30m', 'agentpod extend box 2h --json'],
  options: JSON_OPTION,
  words: { min: 2, max: 2 },
  async run({ client, terminal }, parsed) {
    const ttlMs = parseDuration(parsed.word(1), 'time')
    const sandbox = await (await client()).get(parsed.word(0))
    const { info } = await sandbox.extend(ttlMs)
    terminal.out(
      parsed.has('json') ? JSON.stringify(info) : `${info.name ?? info.id} runs until ${info.deadlineAt}`,
    )
    return 0
  },
}
