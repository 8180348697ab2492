/** What an ordinary user lacks, in words: shown by `doctor`, and once when the first sandbox is created. */
import { existsSync, writeFileSync } from 'node:fs'
import type { CheckView } from '../../api/schema/server.ts'
import type { AgentPod } from '../../client/client.ts'
import type { Home } from '../../core/home.ts'
import type { Terminal } from '../output/terminal.ts'

/** By the name of the check. Its detail has the reason and the command that fixes it. */
const WITHOUT: Readonly<Record<string, (detail: string) => string>> = {
  cgroups: (detail) =>
    `limits on memory and processors do not hold: ${detail.replace(/^\w+: no cgroups: /, '')}`,
  network: (detail) => `only programs that use the proxy reach the network: ${detail}`,
  idmap: () => '/usr of the host base is read-only: `--base debian` has one that root inside can write to',
  pool: () => 'snapshots are copies and disk limits do not hold: only root can mount a pool for them',
}

export function missingWithoutRoot(checks: readonly CheckView[]): string[] {
  return checks.flatMap(({ name, ok, detail }) => {
    const words = WITHOUT[name]
    return ok || !words ? [] : [words(detail)]
  })
}

/** Tells an ordinary user once per state directory which limits are not enforced. */
export async function noteMissingLimits(home: Home, terminal: Terminal, pod: AgentPod): Promise<void> {
  if (existsSync(home.limitsNoted)) return
  const { isRoot } = await pod.server()
  const checks = isRoot ? [] : await pod.checks()
  const limits = missingWithoutRoot(checks.filter(({ name }) => name === 'cgroups' || name === 'pool'))
  for (const words of limits) terminal.say(`note: ${words}`)
  if (limits.length > 0) terminal.say('note: `agentpod doctor` shows this again')
  writeFileSync(home.limitsNoted, '', { mode: 0o600 })
}
