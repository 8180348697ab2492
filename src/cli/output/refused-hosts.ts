/** Shows refused connections of a command, with the option that allows each. */
import type { Sandbox } from '../../client/sandbox.ts'
import { type SeenConnection, suggestRules } from '../../config/network/suggest-rules.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { shellWord } from '../../util/shell/shell-word.ts'
import { decisions } from './network-decisions.ts'
import type { Terminal } from './terminal.ts'

/** The last decisions arrive with a short delay. */
export const DECIDED_AFTER_MS = 500
const MOST_SHOWN = 10

export async function decisionsOf(sandbox: Pick<Sandbox, 'events'>): Promise<SeenConnection[]> {
  await new Promise((resolve) => setTimeout(resolve, DECIDED_AFTER_MS))
  const seen: SeenConnection[] = []
  for await (const { data } of decisions(sandbox)) seen.push(data as unknown as SeenConnection)
  return seen
}

export async function showRefused({ say, red, dim }: Terminal, sandbox: Sandbox): Promise<void> {
  const seen = await decisionsOf(sandbox)
  const { rules, never } = suggestRules(seen)
  const isOff = seen.some(({ reason }) => reason === 'mode.off')
  for (const { text } of rules.slice(0, MOST_SHOWN)) {
    say(red(`✗ refused: ${showHidden(text)} (${isOff ? 'its network is off' : 'no rule allows it'})`))
    say(dim(`  to allow it: --allow ${shellWord(showHidden(text))}${isOff ? ' without --net off' : ''}`))
  }
  for (const host of never.slice(0, MOST_SHOWN))
    say(red(`✗ refused: ${showHidden(host)}; \`agentpod net log\` says why`))
}
