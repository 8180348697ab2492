import type { VolumeInfo } from '../../client/volumes.ts'
import { invalid } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { refuse } from '../args/refuse.ts'
import { parseMib } from '../args/values.ts'
import type { Command, CommandContext } from '../command.ts'
import { table } from '../output/terminal.ts'
import { size } from '../output/units.ts'

const VERBS = ['create', 'ls', 'inspect', 'rm'] as const
const MIB = 1024 * 1024

export const command: Command = {
  usage: [
    'agentpod volume create [--size SIZE] [--provider NAME] NAME',
    'agentpod volume ls',
    'agentpod volume inspect NAME',
    'agentpod volume rm NAME...',
  ].join('\n       '),
  examples: [
    'agentpod volume create cache',
    'agentpod volume create --size 10g data',
    'agentpod run --volume cache:/home/user/.cache/pip -- pip install numpy',
    'agentpod create --volume data:/data:ro',
    'agentpod volume ls --json',
    'agentpod volume rm cache data',
  ],
  options: {
    size: { value: 'SIZE', help: 'create: the most that it holds, like 500m or 10g (default: the disk)' },
    provider: { value: 'NAME', help: 'create: the provider that keeps it' },
    ...JSON_OPTION,
  },
  verbs: VERBS,
  words: { min: 1, max: 100 },
  async run(ctx, parsed) {
    const [verb = '', ...names] = parsed.words
    if (verb !== 'create') refuse(parsed, ['size', 'provider'], 'is only for `agentpod volume create`')
    if (verb === 'ls' && names.length === 0) return list(ctx, parsed)
    if (verb === 'rm' && names.length > 0) return remove(ctx, parsed, names)
    const [name = ''] = names
    if (verb === 'create' && names.length === 1) return create(ctx, parsed, name)
    if (verb === 'inspect' && names.length === 1) return inspect(ctx, parsed, name)
    throw invalid(
      'words.unknown',
      `not a call: volume ${parsed.words.map(showHidden).join(' ')}`,
      command.usage,
    )
  },
}

async function create({ client, terminal }: CommandContext, parsed: Parsed, name: string): Promise<number> {
  const asked = parsed.value('size')
  const volume = await (await client()).volumes.create({
    name,
    sizeMib: asked === undefined ? undefined : parseMib(asked, 'size'),
    provider: parsed.value('provider'),
  })
  if (parsed.has('json')) terminal.out(JSON.stringify(volume))
  else {
    terminal.out(volume.name)
    if (volume.sizeMib !== null && volume.limit.level === 'none')
      terminal.say(`its size is not enforced here: ${volume.limit.reason ?? 'no quotas'}`)
  }
  return 0
}

async function list({ client, terminal }: CommandContext, parsed: Parsed): Promise<number> {
  const volumes = await (await client()).volumes.list()
  if (parsed.has('json')) {
    terminal.out(JSON.stringify(volumes))
    return 0
  }
  const rows = volumes.map((volume) => [
    showHidden(volume.name),
    used(volume),
    limit(volume),
    volume.sandboxes.length === 0 ? '-' : volume.sandboxes.join(','),
    volume.createdAt.slice(0, 10),
  ])
  for (const line of table([['NAME', 'USED', 'SIZE', 'SANDBOXES', 'CREATED'], ...rows])) terminal.out(line)
  return 0
}

async function inspect({ client, terminal }: CommandContext, parsed: Parsed, name: string): Promise<number> {
  const volume = await (await client()).volumes.get(name)
  if (parsed.has('json')) {
    terminal.out(JSON.stringify(volume))
    return 0
  }
  const rows = [
    ['name', showHidden(volume.name)],
    ['id', volume.id],
    ['owner', volume.owner],
    ['provider', volume.provider],
    ['used', used(volume)],
    ['size', limit(volume)],
    ['sandboxes', volume.sandboxes.join(', ') || '-'],
    ['created', volume.createdAt],
  ]
  for (const line of table(rows)) terminal.out(line)
  return 0
}

async function remove(
  { client, terminal }: CommandContext,
  parsed: Parsed,
  names: readonly string[],
): Promise<number> {
  const { volumes } = await client()
  for (const name of names) {
    await volumes.remove(name)
    if (!parsed.has('json')) terminal.say(`${showHidden(name)} is removed with everything in it`)
  }
  if (parsed.has('json')) terminal.out(JSON.stringify(names))
  return 0
}

function used({ usedBytes }: VolumeInfo): string {
  return usedBytes === null ? 'unknown' : size(usedBytes)
}

function limit({ sizeMib, limit: { level } }: VolumeInfo): string {
  if (sizeMib === null) return '-'
  return `${size(sizeMib * MIB)}${level === 'none' ? ' (not enforced)' : ''}`
}
