import { AgentPodError, invalid } from '../../core/error.ts'
import type { SecretScheme } from '../../core/secret.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { parseNumber } from '../args/values.ts'
import type { Command, CommandContext } from '../command.ts'
import { table } from '../output/terminal.ts'

const VERBS = ['set', 'ls', 'rm', 'rotate'] as const
const LONGEST = 64 * 1024

export const command: Command = {
  usage: [
    'agentpod secret set NAME --host HOST [--header NAME] [--scheme WORD]   value on stdin, or --from-env',
    'agentpod secret ls',
    'agentpod secret rotate NAME',
    'agentpod secret rm NAME...',
  ].join('\n       '),
  examples: [
    'printf %s "$KEY" | agentpod secret set OPENAI_API_KEY --host api.openai.com',
    'agentpod secret set ANTHROPIC_API_KEY --host api.anthropic.com --header x-api-key --from-env ANTHROPIC_API_KEY',
    'agentpod secret set GITHUB_TOKEN --host github.com --basic x-access-token --from-env GITHUB_TOKEN',
    'agentpod run --secret OPENAI_API_KEY -- ./agent',
    'agentpod secret rotate OPENAI_API_KEY < new-key',
  ],
  options: {
    host: { value: 'HOST', help: 'set: the only hosts that get the value', repeat: true },
    port: { value: 'PORT', help: 'set: on this port (default 443)' },
    header: { value: 'NAME', help: 'set: in this header (default authorization)' },
    scheme: { value: 'WORD', help: 'set: after this scheme (default Bearer in authorization, else none)' },
    basic: { value: 'USER', help: 'set: as the password of this user in Basic authorization' },
    method: { value: 'METHOD', help: 'set: only with these methods', repeat: true },
    path: { value: 'PATTERN', help: 'set: only on these paths, like /v1/**', repeat: true },
    'per-minute': { value: 'N', help: 'set: limit of requests per minute' },
    variable: { value: 'NAME', help: 'set: the variable that holds the placeholder (default: the name)' },
    'from-env': { value: 'NAME', help: 'set, rotate: read the value from this variable' },
    ...JSON_OPTION,
  },
  verbs: VERBS,
  words: { min: 1, max: 100 },
  async run(ctx, parsed) {
    const [verb = '', ...names] = parsed.words
    const secrets = (await ctx.client()).secrets
    if (verb === 'ls' && names.length === 0) return list(ctx, parsed)
    if (verb === 'rm' && names.length > 0) {
      for (const name of names) {
        await secrets.remove(name)
        ctx.terminal.say(`${showHidden(name)} is removed; its placeholders no longer work`)
      }
      return 0
    }
    const [name = ''] = names
    if (verb === 'rotate' && names.length === 1) {
      const { version } = await secrets.rotate(name, await readValue(ctx, parsed))
      ctx.terminal.say(`${showHidden(name)} has a new value (version ${version})`)
      return 0
    }
    if (verb === 'set' && names.length === 1) return set(ctx, parsed, name)
    // SECURITY: LK-08. The argument may be a secret value, so it is not repeated.
    if (names.length > 1)
      throw invalid(
        'words.unknown',
        `exactly one name is needed: \`agentpod secret ${verb} NAME\``,
        'the value is read from standard input',
      )
    throw invalid('words.unknown', `not a call: secret ${verb}`, command.usage)
  },
}

async function set(ctx: CommandContext, parsed: Parsed, name: string): Promise<number> {
  const [port, rate] = [parsed.value('port'), parsed.value('per-minute')]
  if (!parsed.has('host'))
    throw invalid('option.host', 'missing option: --host', `agentpod secret set ${name} --host HOST`)
  const list = (option: string): string[] | undefined =>
    parsed.has(option) ? [...parsed.values(option)] : undefined
  const secret = await (await ctx.client()).secrets.set({
    name,
    value: await readValue(ctx, parsed),
    hosts: [...parsed.values('host')],
    port: port === undefined ? undefined : parseNumber(port, 'port'),
    header: parsed.value('header'),
    scheme: schemeOf(parsed),
    methods: list('method'),
    paths: list('path'),
    budget: rate === undefined ? undefined : { requestsPerMinute: parseNumber(rate, 'per-minute') },
    variable: parsed.value('variable'),
  })
  if (parsed.has('json')) ctx.terminal.out(JSON.stringify(secret))
  else
    ctx.terminal.say(
      `${showHidden(name)} ${secret.version > 1 ? 'was replaced and ' : ''}is sent only to ${secret.hosts.join(', ')}`,
    )
  return 0
}

function schemeOf(parsed: Parsed): SecretScheme | undefined {
  const [word, user] = [parsed.value('scheme'), parsed.value('basic')]
  if (word !== undefined && user !== undefined)
    throw invalid('option.scheme', '--scheme and --basic cannot be combined')
  if (user !== undefined) return { kind: 'basic', user }
  if (word === undefined) return undefined
  return word === 'none' || word === '' ? { kind: 'bare' } : { kind: 'prefix', prefix: word }
}

async function list({ client, terminal }: CommandContext, parsed: Parsed): Promise<number> {
  const secrets = await (await client()).secrets.list()
  if (parsed.has('json')) {
    terminal.out(JSON.stringify(secrets))
    return 0
  }
  const rows = secrets.map(({ name, hosts, port, header, variable, rotatedAt }) => [
    showHidden(name),
    `${hosts.join(',')}${port === 443 ? '' : `:${port}`}`,
    header,
    `$${variable}`,
    rotatedAt.slice(0, 10),
  ])
  for (const line of table([['NAME', 'HOST', 'HEADER', 'VARIABLE', 'SET'], ...rows])) terminal.out(line)
  return 0
}

/** SECURITY: LK-08. A value is never an argument, because every process of the machine can read arguments. */
async function readValue({ env, terminal }: CommandContext, parsed: Parsed): Promise<string> {
  const variable = parsed.value('from-env')
  if (variable !== undefined) {
    const value = env[variable]
    if (value) return value
    throw invalid('secret.value', `the variable ${variable} is not set`)
  }
  if (terminal.stdin.isTTY) {
    throw new AgentPodError({
      code: 'invalid_argument',
      reason: 'secret.value',
      message: 'the value is read from standard input',
      hint: 'pipe it in, or name a variable with --from-env',
    })
  }
  let text = ''
  for await (const chunk of terminal.stdin) {
    text += chunk
    if (text.length > LONGEST) throw invalid('secret.value', 'the value is too long')
  }
  return text.replace(/\r?\n$/, '')
}
