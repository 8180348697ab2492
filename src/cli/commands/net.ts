import type { EventView } from '../../api/schema/sandbox.ts'
import type { SeenConnection } from '../../config/network/suggest-rules.ts'
import { invalid } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { DECISION, decisions, printSuggestion } from '../output/network-decisions.ts'
import { size } from '../output/units.ts'

export const command: Command = {
  usage: ['agentpod net log [-f] NAME', 'agentpod net suggest NAME'].join('\n       '),
  examples: [
    'agentpod net log box',
    'agentpod net log -f box                 follow until the sandbox ends',
    'agentpod net log --json box             one JSON object per line',
    'agentpod net log --denied box',
    'agentpod net suggest box                the rules that would allow everything it tried',
  ],
  options: {
    follow: { short: 'f', help: 'log: follow until the sandbox ends' },
    denied: { help: 'log: only refused connections' },
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

function line({ at, data }: EventView, terminal: CommandContext['terminal']): string {
  const text = (key: string): string => showHidden(String(data[key] ?? ''))
  const number = (key: string): number => Number(data[key] ?? 0)
  // A record of bytes moved since the last record is not a decision.
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
  const seen: SeenConnection[] = []
  for await (const { data } of decisions(sandbox)) seen.push(data as unknown as SeenConnection)
  printSuggestion(terminal, seen)
  return 0
}
