import { basename, resolve } from 'node:path'
import { readProjectFile } from '../../config/config-files.ts'
import { describeApprovalRequest } from '../../config/grants/combine.ts'
import { readLock } from '../../config/plan/lock.ts'
import { usedBase } from '../../config/plan/used-base.ts'
import { invalid } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { composeRequest } from '../../workbench/compose/approve-compose.ts'
import { usedCompose } from '../../workbench/compose/used-compose.ts'
import { approve, approveFile, baseRequest } from '../../workbench/network/prepare-network.ts'
import {
  COMPOSE_OPTIONS,
  composeOptions,
  DEVCONTAINER_OPTIONS,
  devcontainerOptions,
  JSON_OPTION,
} from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { refuse } from '../args/refuse.ts'
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
    'agentpod policy approve                 approve what the files here ask for',
  ],
  options: {
    method: { value: 'METHOD', help: 'explain: the method of the request (default GET)' },
    ...COMPOSE_OPTIONS,
    ...DEVCONTAINER_OPTIONS,
    ...JSON_OPTION,
  },
  verbs: ['show', 'explain', 'approve'],
  words: { min: 1, max: 3 },
  async run(ctx, parsed) {
    const [verb, ...words] = parsed.words
    if (verb !== 'approve') refuse(parsed, OF_FILES, 'is for `agentpod policy approve`', 'leave it out')
    if (verb !== 'explain') refuse(parsed, ['method'], 'is for `agentpod policy explain`', 'leave it out')
    if (verb === 'show' && words.length === 1) return show(ctx, parsed, words[0] ?? '')
    if (verb === 'explain' && words.length === 2) return explain(ctx, parsed, words[0] ?? '', words[1] ?? '')
    if (verb === 'approve' && words.length <= 1) return grant(ctx, parsed, words[0] ?? ctx.cwd)
    throw invalid('words.unknown', `not a call: policy ${parsed.words.join(' ')}`, command.usage)
  },
}

const OF_FILES = [...Object.keys(COMPOSE_OPTIONS), ...Object.keys(DEVCONTAINER_OPTIONS)]

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

async function grant(ctx: CommandContext, parsed: Parsed, directory: string): Promise<number> {
  const [{ derivedOf, detectIn }, { askedDevcontainer, CONTAINER_PRESETS, moreWishes }] = await Promise.all([
    import('../../workbench/environment/plan-environment.ts'),
    import('../../workbench/devcontainer/plan-devcontainer.ts'),
  ])
  const detected = await detectIn(ctx, directory)
  const data = readProjectFile(directory)?.data
  const project = { directory, name: basename(resolve(directory)), files: detected.tree.files }
  const choice = { ...devcontainerOptions(parsed), compose: composeOptions(parsed) }
  const request = await askedDevcontainer(ctx, project, choice)
  const derived = [...derivedOf(detected, data), ...(request ? CONTAINER_PRESETS : [])]
  // The base of a devcontainer goes before those of other files.
  const base = request ? undefined : usedBase(detected.bases, data, readLock(directory))
  const say = (text: string): void => ctx.terminal.say(`note: ${showHidden(text)}`)
  const compose = usedCompose({ directory, tree: detected.tree }, choice, say)
  const asked = [
    approve(ctx, directory, derived, request && moreWishes(request)),
    base && approveFile(ctx, directory, baseRequest(base)),
    compose && approveFile(ctx, directory, composeRequest(compose, detected.tree)),
  ].filter((one) => one !== undefined)
  if (asked.length === 0) ctx.terminal.say('nothing to approve')
  for (const line of asked.flatMap(describeApprovalRequest)) ctx.terminal.say(`granted: ${showHidden(line)}`)
  return 0
}
