/** What a command was refused on its way out, with what would allow it. */
import type { Sandbox } from '../../client/sandbox.ts'
import { type Seen, suggestRules } from '../../config/suggest.ts'
import { shellWord } from '../../util/shell-word.ts'
import { decisions } from '../commands/net.ts'
import { printable, type Terminal } from './terminal.ts'

/** The last decisions are on their way for a moment. */
export const DECIDED_AFTER_MS = 500
const MOST_SHOWN = 10

export async function decisionsOf(sandbox: Pick<Sandbox, 'events'>): Promise<Seen[]> {
  await new Promise((resolve) => setTimeout(resolve, DECIDED_AFTER_MS))
  const seen: Seen[] = []
  for await (const { data } of decisions(sandbox)) seen.push(data as unknown as Seen)
  return seen
}

export async function showRefused({ say, red, dim }: Terminal, sandbox: Sandbox): Promise<void> {
  const seen = await decisionsOf(sandbox)
  const { rules, never } = suggestRules(seen)
  const isOff = seen.some(({ reason }) => reason === 'mode.off')
  for (const { text } of rules.slice(0, MOST_SHOWN)) {
    say(red(`✗ refused: ${printable(text)} (${isOff ? 'its network is off' : 'no rule allows it'})`))
    say(dim(`  to allow it: --allow ${shellWord(printable(text))}${isOff ? ' without --net off' : ''}`))
  }
  for (const host of never.slice(0, MOST_SHOWN))
    say(red(`✗ refused: ${printable(host)}; \`agentpod net log\` says why`))
}
