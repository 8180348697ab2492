import { DATA_DATE, PRESETS, parsePresetName } from '../../config/presets/catalog.ts'
import type { Preset, Presets } from '../../config/presets/presets.ts'
import { invalid, isAgentPodError } from '../../core/error.ts'
import { presetsOf } from '../../workbench/network/prepare-network.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command, CommandContext } from '../command.ts'
import { table } from '../output/terminal.ts'

export const command: Command = {
  usage: [
    'agentpod preset ls [NAME...]',
    'agentpod preset set NAME HOST...',
    'agentpod preset unset NAME',
  ].join('\n       '),
  examples: [
    'agentpod preset ls',
    'agentpod preset ls npm                       read npm’s settings on this machine again',
    'agentpod preset set maven repo.example.com   for a tool that is not installed here',
    'agentpod run --preset npm -- npm ci',
  ],
  options: JSON_OPTION,
  verbs: ['ls', 'set', 'unset'],
  words: { min: 1, max: 64 },
  async run(ctx, parsed) {
    const [verb = '', ...words] = parsed.words
    const presets = presetsOf(ctx)
    if (verb === 'ls') return list(ctx, presets, words, parsed.has('json'))
    const [name = '', ...hosts] = words
    if (verb === 'set' && hosts.length > 0) presets.set(name, hosts)
    else if (verb === 'unset' && words.length === 1) presets.set(name, [])
    else throw invalid('words.unknown', `not a call: preset ${parsed.words.join(' ')}`, command.usage)
    ctx.terminal.say(
      hosts.length > 0 ? `${name} means ${hosts.join(', ')}` : `${name} is read from its client again`,
    )
    return 0
  },
}

async function list(
  { terminal }: CommandContext,
  presets: Presets,
  asked: readonly string[],
  isJson: boolean,
): Promise<number> {
  const names = asked.length > 0 ? asked.map(parsePresetName) : PRESETS
  const found = await Promise.all(
    names.map(async (name) => {
      try {
        terminal.progress('reading the settings of this machine’s package managers')
        return await presets.get(name, { fresh: asked.length > 0 })
      } catch (error) {
        if (isAgentPodError(error, 'failed_precondition')) return { name, hosts: [], from: undefined }
        throw error
      }
    }),
  )
  terminal.clearProgress()
  if (isJson)
    terminal.out(JSON.stringify(found.map(({ name, hosts, from }) => ({ name, hosts, from: from ?? null }))))
  else for (const line of table(found.map(row))) terminal.out(line)
  return 0
}

const FROM = {
  user: 'set by you',
  client: 'from this machine’s settings',
  data: `as of ${DATA_DATE}`,
} as const

function row({
  name,
  hosts,
  from,
}: Pick<Preset, 'name' | 'hosts'> & { from: Preset['from'] | undefined }): string[] {
  if (from === undefined) return [name, `not installed here; agentpod preset set ${name} HOST...`]
  return [name, hosts.join(' '), FROM[from]]
}
