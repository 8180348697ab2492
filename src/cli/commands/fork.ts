import { isAgentPodError } from '../../core/error.ts'
import {
  COPY_OPTIONS,
  JSON_OPTION,
  lifetimeOptions,
  resourceOptions,
  volumeOptions,
} from '../args/options.ts'
import { parseNumber, parsePairs } from '../args/values.ts'
import type { Command } from '../command.ts'

const { sudo: _sudo, name: _name, memory, ...OPTIONS } = COPY_OPTIONS

export const command: Command = {
  usage: 'agentpod fork [options] NAME',
  examples: [
    'agentpod fork box',
    'agentpod fork --count 3 --name try box      try-1, try-2 and try-3',
    'agentpod fork --memory box                  the copy continues the running processes (gVisor, virtual machines)',
    'agentpod fork --timeout 15m --json box',
  ],
  options: {
    count: { short: 'n', value: 'N', help: 'how many (default 1)' },
    name: { value: 'NAME', help: 'the name; several forks get a number appended' },
    memory: { help: 'continue the running processes, with their memory' },
    'memory-limit': { ...memory, help: 'memory limit, like 512m or 2g (default that of the original)' },
    ...OPTIONS,
    ...JSON_OPTION,
  },
  words: { min: 1, max: 1 },
  async run({ client, terminal }, parsed) {
    const count = parsed.value('count')
    const sandbox = await (await client()).get(parsed.word(0))
    try {
      const forks = await sandbox.fork({
        count: count === undefined ? undefined : parseNumber(count, 'count'),
        name: parsed.value('name'),
        ...(parsed.has('memory') && { memory: true }),
        labels: parsePairs(parsed.values('label'), 'label'),
        resources: resourceOptions(parsed, 'memory-limit'),
        lifetime: lifetimeOptions(parsed),
        ...volumeOptions(parsed),
      })
      if (parsed.has('json')) terminal.out(JSON.stringify(forks.map(({ info }) => info)))
      else for (const { id } of forks) terminal.out(id)
      return 0
    } catch (error) {
      // Forks that were created before the failure exist, so they are printed.
      const made =
        isAgentPodError(error) && error.reason === 'fork.partial' ? error.details['made'] : undefined
      if (Array.isArray(made) && !parsed.has('json')) for (const id of made) terminal.out(String(id))
      throw error
    }
  },
}
