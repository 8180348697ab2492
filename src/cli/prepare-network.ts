/** What a new sandbox may reach: options, the user's file and the project's, put together. */
import { realpathSync } from 'node:fs'
import { homedir } from 'node:os'
import { createInterface } from 'node:readline/promises'
import type { CreateOptions } from '../client/sandbox.ts'
import { Approvals } from '../config/approvals.ts'
import { type Asked, type Combined, combine, describeAsked } from '../config/combine.ts'
import { PROJECT_FILE, readProject, readUser } from '../config/files.ts'
import type { NetworkWish, SecretWish } from '../config/network-table.ts'
import { type Preset, Presets } from '../config/presets/presets.ts'
import { denialOf, grantOf, inParts } from '../config/rules.ts'
import { invalid } from '../core/error.ts'
import { NETWORK_MODES } from '../core/network.ts'
import { systemClock } from '../util/clock.ts'
import { chosen } from './args/options.ts'
import type { Parsed } from './args/parse.ts'
import { privateRule } from './args/values.ts'
import type { CommandContext } from './command.ts'
import { printable } from './output/terminal.ts'

export interface PreparedNetwork {
  readonly network: NonNullable<CreateOptions['network']>
  /** For clients inside, from presets. */
  readonly variables: Readonly<Record<string, string>>
  readonly files: Preset['files']
}

export function presetsOf({ home, env }: Pick<CommandContext, 'home' | 'env'>): Presets {
  return new Presets({ home: home.root, asking: { env, home: homedir() }, now: () => systemClock.now() })
}

/** `directory` is the project's, where there is one. */
export async function prepareNetwork(
  ctx: CommandContext,
  parsed: Parsed,
  directory: string | undefined,
  already?: NetworkWish | undefined,
): Promise<PreparedNetwork> {
  const wish = already ?? (await combined(ctx, directory)).wish
  const names = [...new Set([...wish.presets, ...parsed.values('preset')])]
  const presets = presetsOf(ctx)
  const found = await Promise.all(names.map((name) => presets.get(name)))
  const allow = [
    ...wish.allow,
    ...parsed.values('allow').map((text) => grantOf(text)),
    ...parsed.values('allow-private').map((text) => grantOf(privateRule(text))),
    ...found.flatMap(({ rules }) => rules),
  ]
  const deny = [...wish.deny, ...parsed.values('deny').map(denialOf)]
  return {
    network: {
      mode: chosen(parsed, 'net', NETWORK_MODES) ?? wish.mode,
      // What is left out is as in the snapshot, where there is one.
      allow: some(allow.map(request)),
      deny: some(deny.map(request)),
      secrets: some([...new Set([...(await known(ctx, wish.secrets)), ...parsed.values('secret')])]),
      intercept: parsed.has('intercept-all') ? 'all' : wish.intercept,
    },
    variables: Object.assign({}, ...found.map(({ variables }) => variables)) as Record<string, string>,
    files: found.flatMap(({ files }) => files),
  }
}

/** Of the secrets that files name, those that are set; what is missing is said, with what to do. */
async function known(ctx: CommandContext, wanted: readonly SecretWish[]): Promise<string[]> {
  if (wanted.length === 0) return []
  const there = new Set((await (await ctx.client()).secrets.list()).map(({ name }) => name))
  for (const { name, hosts, header, isRequired } of wanted) {
    if (there.has(name)) continue
    const where = hosts.length > 0 ? hosts.map((host) => `--host ${host}`).join(' ') : '--host HOST'
    const hint = printable(`agentpod secret set ${name} ${where}${header ? ` --header ${header}` : ''}`)
    if (isRequired)
      throw invalid(
        'secret.missing',
        `the project needs the secret ${name}, which is not set`,
        `\`${hint}\` sets it, from standard input`,
      )
    ctx.terminal.say(`the secret ${name} is not set and was left out; \`${hint}\` sets it`)
  }
  return wanted.map(({ name }) => name).filter((name) => there.has(name))
}

function some<T>(list: T[]): T[] | undefined {
  return list.length > 0 ? list : undefined
}

type RuleRequest = NonNullable<NonNullable<CreateOptions['network']>['allow']>[number]

function request(rule: Parameters<typeof inParts>[0]): RuleRequest {
  return inParts(rule) as RuleRequest
}

/** What the environment itself is made with needs no other grant; a file may still narrow it. */
function userWish({ home }: CommandContext, derived: readonly string[]): NetworkWish {
  const own = readUser(home.root)
  return { ...own, presets: [...new Set([...own.presets, ...derived])] }
}

/** SECURITY: CF-02. What a project asks for is put to the user once; where nobody can be asked, it is left out and said. */
export async function combined(
  ctx: CommandContext,
  directory: string | undefined,
  derived: readonly string[] = [],
): Promise<Combined> {
  const user = userWish(ctx, derived)
  if (directory === undefined) return combine(user)
  const project = readProject(directory)
  if (!project) return combine(user)
  const approvals = new Approvals(ctx.home.root)
  const place = realpathSync(directory)
  const isApproved = (hash: string): boolean => approvals.has(hash, place)
  const first = combine(user, project, isApproved)
  if (!first.asked) return first
  if (!(await isGranted(ctx, first.asked))) return first
  approvals.add(first.asked.hash, place, new Date(systemClock.now()))
  return combine(user, project, isApproved)
}

async function isGranted({ terminal }: CommandContext, asked: Asked): Promise<boolean> {
  terminal.say(`${PROJECT_FILE} asks for more than you have granted:`)
  for (const line of describeAsked(asked)) terminal.say(`  ${printable(line)}`)
  if (!terminal.isInteractive) {
    terminal.say('it was left out; `agentpod policy approve` grants it to this project as it is now')
    return false
  }
  const questions = createInterface({ input: terminal.stdin, output: terminal.stderr })
  try {
    const answer = await questions.question('grant it to this project, as it is now? [y/N] ')
    return /^y(es)?$/i.test(answer.trim())
  } finally {
    questions.close()
  }
}

/** Grants what the project asks for. Undefined where it asks for nothing, or has it already. */
export function approve(
  ctx: CommandContext,
  directory: string,
  derived: readonly string[],
): Asked | undefined {
  const project = readProject(directory)
  const place = realpathSync(directory)
  const approvals = new Approvals(ctx.home.root)
  const { asked } = combine(userWish(ctx, derived), project, (hash) => approvals.has(hash, place))
  if (asked) approvals.add(asked.hash, place, new Date(systemClock.now()))
  return asked
}
