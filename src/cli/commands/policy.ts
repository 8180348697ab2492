import { readProjectFile } from '../../config/config-files.ts'
import { describeApprovalRequest } from '../../config/grants/combine.ts'
import { invalid } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { approve } from '../../workbench/network/prepare-network.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { table } from '../output/terminal.ts'
import { size } from '../output/units.ts'

export const command: Command = {
  usage: [
    'agentpod policy show NAME',
    'agentpod policy explain NAME URL',
    'agentpod policy approve [DIRECTORY]',
  ].join('\n       '),
  examples: [
    'agentpod policy show box',
    'agentpod policy explain box https://example.com/api/v1',
    'agentpod policy explain --method POST box https://example.com/upload',
    'agentpod policy approve                 approve what agentpod.toml here asks for',
  ],
  options: {
    method: { value: 'METHOD', help: 'explain: the method of the request (default GET)' },
    ...JSON_OPTION,
  },
  verbs: ['show', 'explain', 'approve'],
  words: { min: 1, max: 3 },
  async run(ctx, parsed) {
    const [verb, ...words] = parsed.words
    if (verb === 'show' && words.length === 1) return show(ctx, parsed, words[0] ?? '')
    if (verb === 'explain' && words.length === 2) return explain(ctx, parsed, words[0] ?? '', words[1] ?? '')
    if (verb === 'approve' && words.length <= 1) return grant(ctx, words[0] ?? ctx.cwd)
    throw invalid('words.unknown', `not a call: policy ${parsed.words.join(' ')}`, command.usage)
  },
}

async function show({ client, terminal }: CommandContext, parsed: Parsed, name: string): Promise<number> {
  const network = await (await (await client()).get(name)).network()
  if (parsed.has('json')) {
    terminal.out(JSON.stringify(network))
    return 0
  }
  const { mode, level, reason, rules, denied, named, secrets, counts } = network
  terminal.out(`mode ${mode}, ${level}${reason ? ` (${reason})` : ''}`)
  const line = (verb: string, rule: (typeof rules)[number]): string[] => [
    verb,
    showHidden(`${rule.host}${rule.ports ? `:${rule.ports.join(',')}` : ''}`),
    showHidden(
      [
        rule.methods?.join(','),
        rule.paths?.join(','),
        rule.private ? 'private' : '',
        rule.budget?.requestsPerMinute ? `${rule.budget.requestsPerMinute}/min` : '',
        rule.budget?.bytes ? size(rule.budget.bytes) : '',
      ]
        .filter(Boolean)
        .join(' '),
    ),
    rule.source,
  ]
  const servers = named.map((server) => ['allow', showHidden(server), 'address', 'create'])
  for (const row of table([
    ...denied.map((r) => line('deny', r)),
    ...rules.map((r) => line('allow', r)),
    ...servers,
  ]))
    terminal.out(`  ${row}`)
  if (secrets.length > 0) terminal.out(`  placeholders for ${secrets.map(showHidden).join(', ')}`)
  terminal.out(
    `${counts.allowed} allowed, ${counts.denied} denied, ${counts.failed} failed; ${size(counts.bytesIn)} in, ${size(counts.bytesOut)} out`,
  )
  return 0
}

async function explain(
  { client, terminal }: CommandContext,
  parsed: Parsed,
  name: string,
  url: string,
): Promise<number> {
  const sandbox = await (await client()).get(name)
  const explained = await sandbox.explain(url, parsed.value('method'))
  terminal.out(parsed.has('json') ? JSON.stringify(explained) : explained.text)
  return 0
}

async function grant(ctx: CommandContext, directory: string): Promise<number> {
  const { derivedOf, detectIn } = await import('../../workbench/environment/plan-environment.ts')
  const derived = derivedOf(await detectIn(ctx, directory), readProjectFile(directory)?.data)
  const asked = approve(ctx, directory, derived)
  if (!asked) ctx.terminal.say('nothing to approve')
  else for (const line of describeApprovalRequest(asked)) ctx.terminal.say(`granted: ${showHidden(line)}`)
  return 0
}
