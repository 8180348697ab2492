/** The network decisions of a sandbox, and the rules that would allow what was refused. */
import type { EventView } from '../../api/schema/sandbox.ts'
import { type SeenConnection, suggestRules } from '../../config/network/suggest-rules.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import type { Terminal } from './terminal.ts'

export const DECISION = 'network.decision'

/** All stored decisions, page by page. */
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

/** Prints rules for `agentpod.toml`, and the hosts that no rule can allow. */
export function printSuggestion(terminal: Terminal, seen: readonly SeenConnection[]): void {
  const { rules, never } = suggestRules(seen)
  const isOff = seen.some(({ reason }) => reason === 'mode.off')
  if (isOff) terminal.out('# the network was off: leave out --net off, or use --net allowlist')
  if (rules.length === 0 && never.length === 0) terminal.out('# no further rules are needed')
  if (rules.length > 0) {
    terminal.out('[network]')
    terminal.out('allow = [')
    for (const { text, count } of rules)
      terminal.out(`  ${JSON.stringify(text)},  # asked for ${count} ${count === 1 ? 'time' : 'times'}`)
    terminal.out(']')
  }
  for (const host of never) terminal.out(`# never allowed: ${showHidden(host)}`)
}
