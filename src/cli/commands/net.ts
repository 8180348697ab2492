import type { EventView } from '../../api/schema/sandbox.ts'
import { type Seen, suggestRules } from '../../config/suggest.ts'
import { invalid } from '../../core/error.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { printable } from '../output/terminal.ts'
import { size } from '../output/units.ts'

export const DECISION = 'network.decision'

export const command: Command = {
  usage: ['agentpod net log [-f] NAME', 'agentpod net suggest NAME'].join('\n       '),
  examples: [
    'agentpod net log box',
    'agentpod net log -f box                 go on until the sandbox ends',
    'agentpod net log --json box             a line of JSON each, for programs',
    'agentpod net log --denied box',
    'agentpod net suggest box                the smallest rules that would let it all through',
  ],
  options: {
    follow: { short: 'f', help: 'log: go on until the sandbox ends' },
    denied: { help: 'log: only what was refused' },
    ...JSON_OPTION,
  },
  verbs: ['log', 'suggest'],
  words: { min: 2, max: 2 },
  async run(ctx, parsed) {
    const [verb, name = ''] = parsed.words
    if (verb === 'log') return log(ctx, parsed, name)
    if (verb === 'suggest') return suggest(ctx, name)
    throw invalid('words.unknown', `not a call: net ${parsed.words.join(' ')}`, command.usage)
  },
}

async function log({ client, terminal }: CommandContext, parsed: Parsed, name: string): Promise<number> {
  const sandbox = await (await client()).get(name)
  const show = (event: EventView): void => {
    if (parsed.has('denied') && event.data['verdict'] === 'allowed') return
    terminal.out(parsed.has('json') ? JSON.stringify(event) : line(event, terminal))
  }
  if (parsed.has('follow')) {
    for await (const event of sandbox.follow({ type: DECISION })) show(event)
    return 0
  }
  for await (const event of decisions(sandbox)) show(event)
  return 0
}

/** All that are kept, page by page. */
export async function* decisions(sandbox: {
  events(after: number, type: string): Promise<EventView[]>
}): AsyncGenerator<EventView> {
  for (let after = 0; ; ) {
    const page = await sandbox.events(after, DECISION)
    yield* page
    const last = page.at(-1)
    if (!last) return
    after = last.seq
  }
}

function line({ at, data }: EventView, terminal: CommandContext['terminal']): string {
  const text = (key: string): string => printable(String(data[key] ?? ''))
  const number = (key: string): number => Number(data[key] ?? 0)
  // What a long connection has moved since it was last counted is no decision.
  const verdict = (number('count') === 0 ? 'moved' : text('verdict')).padEnd(7)
  const colour = data['verdict'] === 'allowed' ? terminal.green : terminal.red
  const times = number('count') > 1 ? ` ×${number('count')}` : ''
  const moved = number('bytesIn') + number('bytesOut')
  const bytes = moved > 0 ? `  ${size(number('bytesIn'))} in, ${size(number('bytesOut'))} out` : ''
  const what = [text('method'), `${text('host')}:${number('port')}${text('path')}`].filter(Boolean).join(' ')
  const why = data['verdict'] === 'allowed' ? '' : `  ${text('message')}`
  return `${at}  ${colour(verdict)}  ${what}${times}  [${text('reason')}]${why}${bytes}`
}

async function suggest({ client, terminal }: CommandContext, name: string): Promise<number> {
  const sandbox = await (await client()).get(name)
  const seen: Seen[] = []
  for await (const { data } of decisions(sandbox)) seen.push(data as unknown as Seen)
  printSuggestion(terminal, seen)
  return 0
}

/** As lines for `agentpod.toml`, and what cannot be allowed at all. */
export function printSuggestion(terminal: CommandContext['terminal'], seen: readonly Seen[]): void {
  const { rules, never } = suggestRules(seen)
  const isOff = seen.some(({ reason }) => reason === 'mode.off')
  if (isOff) terminal.out('# its network was off: leave out --net off, or say --net allowlist')
  if (rules.length === 0 && never.length === 0) terminal.out('# nothing more is needed')
  if (rules.length > 0) {
    terminal.out('[network]')
    terminal.out('allow = [')
    for (const { text, count } of rules)
      terminal.out(`  ${JSON.stringify(text)},  # asked for ${count} ${count === 1 ? 'time' : 'times'}`)
    terminal.out(']')
  }
  for (const host of never) terminal.out(`# never allowed: ${printable(host)}`)
}
