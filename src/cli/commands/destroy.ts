import { invalid } from '../../core/error.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod destroy NAME... | --all',
  examples: ['agentpod destroy box', 'agentpod destroy --all'],
  options: { all: { help: 'all sandboxes' }, ...JSON_OPTION },
  words: { min: 0, max: 1000 },
  async run({ client, terminal }, parsed) {
    const pod = await client()
    const isAll = parsed.has('all')
    if (isAll === parsed.words.length > 0)
      throw invalid('words.missing', 'missing argument: name sandboxes, or use --all', command.usage)
    const refs = isAll ? (await pod.list()).map(({ id }) => id) : parsed.words
    const ids: string[] = []
    for (const ref of refs) {
      const sandbox = await pod.get(ref)
      await sandbox.destroy()
      ids.push(sandbox.id)
      if (!parsed.has('json')) terminal.out(ref)
    }
    if (parsed.has('json')) terminal.out(JSON.stringify(ids))
    return 0
  },
}
