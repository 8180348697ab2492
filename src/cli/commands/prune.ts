import { showHidden } from '../../util/hidden-characters.ts'
import { JSON_OPTION } from '../args/options.ts'
import { parseMib } from '../args/values.ts'
import type { Command } from '../command.ts'
import { megabytes } from '../output/build-log.ts'

const DEFAULT_KEEP = '20GB'

export const command: Command = {
  usage: 'agentpod prune [--keep SIZE]',
  examples: ['agentpod prune --keep 20GB', 'agentpod prune --keep 0GB --dry-run'],
  options: {
    keep: { value: 'SIZE', help: `how much space layers may use (default ${DEFAULT_KEEP})` },
    'dry-run': { help: 'show what would be removed' },
    ...JSON_OPTION,
  },
  words: { min: 0, max: 0 },
  async run({ client, terminal }, parsed) {
    const keep = parsed.value('keep') ?? DEFAULT_KEEP
    const bytes = /^0+[a-zA-Z]*$/.test(keep) ? 0 : parseMib(keep, 'keep') * 1024 * 1024
    const isDry = parsed.has('dry-run')
    const { removed, keptBytes } = await (await client()).builds.prune(bytes, { dryRun: isDry })
    if (parsed.has('json')) {
      terminal.out(JSON.stringify({ removed, keptBytes }))
      return 0
    }
    for (const { title, sizeBytes } of removed)
      terminal.out(
        `${isDry ? 'would remove' : 'removed'}  ${megabytes(sizeBytes).padStart(9)}  ${showHidden(title)}`,
      )
    const gone = removed.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
    terminal.say(`${megabytes(gone)} ${isDry ? 'would be removed' : 'removed'}, ${megabytes(keptBytes)} kept`)
    return 0
  },
}
