import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'
import { table } from '../output/terminal.ts'
import { size, span } from '../output/units.ts'

export const command: Command = {
  usage: 'agentpod stats NAME [--json]',
  examples: ['agentpod stats box', 'agentpod stats box --json'],
  options: JSON_OPTION,
  words: { min: 1, max: 1 },
  async run({ client, terminal }, parsed) {
    const sandbox = await (await client()).get(parsed.word(0))
    const s = await sandbox.stats()
    if (parsed.has('json')) {
      terminal.out(JSON.stringify({ id: sandbox.id, ...s }))
      return 0
    }
    const rows = [
      ['cpu time', `${(s.cpuMs / 1000).toFixed(2)} s`],
      [
        'memory',
        `${size(s.memBytes)}${s.memLimitBytes ? ` of ${size(s.memLimitBytes)}` : ''}${s.memPeakBytes ? `, peak ${size(s.memPeakBytes)}` : ''}`,
      ],
      ['processes', `${s.pids}${s.pidsLimit ? ` of ${s.pidsLimit}` : ''}`],
      ['disk written', size(s.diskBytes)],
      ['out of memory', `${s.oomKills} times`],
      [
        'network',
        `${s.network.allowed} allowed, ${s.network.denied} denied; ${size(s.network.bytesIn)} in, ${size(s.network.bytesOut)} out`,
      ],
      ['up', span(s.uptimeMs)],
      ['idle for', span(s.idleForMs)],
    ]
    for (const line of table(rows)) terminal.out(line)
    return 0
  },
}
