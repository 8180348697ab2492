import { image as imageKind, imageOf } from '../../bases/image.ts'
import type { GroupInfo } from '../../client/groups.ts'
import { invalid } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { keptLifetime } from '../../workbench/copy/kept-lifetime.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { refuse } from '../args/refuse.ts'
import type { Command, CommandContext } from '../command.ts'
import { table } from '../output/terminal.ts'

const CHANGES = ['pause', 'resume', 'stop', 'start'] as const
const VERBS = ['create', 'ls', 'show', ...CHANGES, 'snapshot', 'fork', 'destroy'] as const
const DONE = { pause: 'paused', resume: 'running', stop: 'stopped', start: 'running' } as const

export const command: Command = {
  usage: [
    'agentpod group create --member NAME[=IMAGE]... GROUP',
    'agentpod group ls',
    'agentpod group show NAME',
    'agentpod group pause|resume|stop|start|destroy NAME...',
    'agentpod group snapshot|fork --name NEW NAME',
  ].join('\n       '),
  examples: [
    'agentpod group create --member web --member db=postgres:17 shop',
    'agentpod group ls',
    'agentpod group show shop',
    'agentpod group pause shop',
    'agentpod group fork --name shop-2 shop',
    'agentpod group destroy shop shop-2',
  ],
  options: {
    member: {
      value: 'NAME[=IMAGE]',
      help: 'create: a sandbox that the others reach by this name; the first one is the main one (repeatable)',
      repeat: true,
    },
    name: {
      value: 'NEW',
      help: 'fork: the name of the new group; snapshot: of the snapshots, each followed by its member',
    },
    ...JSON_OPTION,
  },
  verbs: VERBS,
  words: { min: 1, max: 100 },
  async run(ctx, parsed) {
    const [verb = '', ...names] = parsed.words
    if (verb !== 'snapshot' && verb !== 'fork')
      refuse(parsed, ['name'], 'is only for `agentpod group snapshot` and `agentpod group fork`')
    if (verb !== 'create') refuse(parsed, ['member'], 'is only for `agentpod group create`')
    if (verb === 'ls' && names.length === 0) return list(ctx, parsed)
    const [name = ''] = names
    if (verb === 'create' && names.length === 1) return create(ctx, parsed, name)
    const change = CHANGES.find((one) => one === verb)
    if (change && names.length > 0) return apply(ctx, parsed, change, names)
    if (verb === 'destroy' && names.length > 0) return destroy(ctx, parsed, names)
    if (verb === 'show' && names.length === 1) return show(ctx, parsed, name)
    if (verb === 'snapshot' && names.length === 1) return snapshot(ctx, parsed, name)
    if (verb === 'fork' && names.length === 1) return fork(ctx, parsed, name)
    throw invalid(
      'words.unknown',
      `not a call: group ${parsed.words.map(showHidden).join(' ')}`,
      command.usage,
    )
  },
}

async function create(ctx: CommandContext, parsed: Parsed, name: string): Promise<number> {
  const members = parsed.values('member').map(readMember)
  if (members.length === 0)
    throw invalid(
      'member.missing',
      'missing option: --member',
      'for example: agentpod group create --member web --member db=postgres:17 shop',
    )
  const pod = await ctx.client()
  for (const image of new Set(members.flatMap((one) => one.image ?? []))) {
    using progress = ctx.person.progress({})
    await pod.prepare(imageKind.name, (line) => progress.status(line), { image })
  }
  const made = await pod.groups.create({
    name,
    members: members.map(({ host, image }, at) => ({
      name: host,
      main: at === 0,
      sandbox: {
        lifetime: keptLifetime(),
        ...(image !== undefined && { environment: { base: imageKind.name, image } }),
      },
    })),
  })
  ctx.terminal.out(parsed.has('json') ? JSON.stringify(made) : made.name)
  return 0
}

function readMember(text: string): { readonly host: string; readonly image: string | undefined } {
  const [host = '', ...rest] = text.split('=')
  const image = rest.length === 0 ? undefined : rest.join('=')
  if (image !== undefined) imageOf({ image })
  return { host, image }
}

async function list({ client, terminal }: CommandContext, parsed: Parsed): Promise<number> {
  const groups = await (await client()).groups.list()
  if (parsed.has('json')) {
    terminal.out(JSON.stringify(groups))
    return 0
  }
  const rows = groups.map((group) => [
    showHidden(group.name),
    stateOf(group),
    group.members.map(({ name }) => name).join(','),
    group.createdAt.slice(0, 10),
  ])
  for (const line of table([['NAME', 'STATE', 'MEMBERS', 'CREATED'], ...rows])) terminal.out(line)
  return 0
}

/** The state of the members if it is the same for all. */
function stateOf({ state, members }: GroupInfo): string {
  if (state !== 'ready') return state
  const states = new Set(members.flatMap(({ sandbox }) => (sandbox ? [sandbox.state] : [])))
  return states.size === 1 ? ([...states][0] ?? state) : 'mixed'
}

async function show({ client, terminal }: CommandContext, parsed: Parsed, name: string): Promise<number> {
  const group = await (await client()).groups.get(name)
  if (parsed.has('json')) {
    terminal.out(JSON.stringify(group))
    return 0
  }
  terminal.out(`${showHidden(group.name)}  ${group.id}  ${stateOf(group)}`)
  const rows = group.members.map(({ name: member, aliases, main, after, sandbox }) => [
    main ? `${member} (main)` : member,
    sandbox?.state ?? 'no sandbox yet',
    sandbox
      ? [sandbox.name, sandbox.id]
          .filter((one) => one !== null)
          .map(showHidden)
          .join(' ')
      : '-',
    aliases.join(',') || '-',
    after.join(',') || '-',
  ])
  for (const line of table([['MEMBER', 'STATE', 'SANDBOX', 'ALIASES', 'AFTER'], ...rows])) terminal.out(line)
  return 0
}

async function apply(
  { client, terminal }: CommandContext,
  parsed: Parsed,
  change: (typeof CHANGES)[number],
  names: readonly string[],
): Promise<number> {
  const { groups } = await client()
  const changed: GroupInfo[] = []
  for (const name of names) {
    changed.push(await groups[change](name))
    if (!parsed.has('json')) terminal.say(`${showHidden(name)} is ${DONE[change]}`)
  }
  if (parsed.has('json')) terminal.out(JSON.stringify(changed))
  return 0
}

async function destroy(
  { client, terminal }: CommandContext,
  parsed: Parsed,
  names: readonly string[],
): Promise<number> {
  const { groups } = await client()
  for (const name of names) {
    await groups.destroy(name)
    if (!parsed.has('json')) terminal.say(`${showHidden(name)} and its sandboxes are destroyed`)
  }
  if (parsed.has('json')) terminal.out(JSON.stringify(names))
  return 0
}

async function snapshot({ client, terminal }: CommandContext, parsed: Parsed, ref: string): Promise<number> {
  const taken = await (await client()).groups.snapshot(ref, { name: newName(parsed) })
  if (parsed.has('json')) terminal.out(JSON.stringify(taken))
  else for (const one of taken) terminal.out(`${one.member}  ${one.snapshot.name}`)
  return 0
}

async function fork({ client, terminal }: CommandContext, parsed: Parsed, ref: string): Promise<number> {
  const made = await (await client()).groups.fork(ref, { name: newName(parsed) })
  terminal.out(parsed.has('json') ? JSON.stringify(made) : made.name)
  return 0
}

function newName(parsed: Parsed): string {
  const name = parsed.value('name')
  if (name !== undefined) return name
  throw invalid(
    'name.missing',
    'missing option: --name',
    'for example: agentpod group fork --name shop-2 shop',
  )
}
