import { userInfo } from 'node:os'
import type { CheckView } from '../../api/schema/server.ts'
import type { AgentPod } from '../../client/client.ts'
import { asAgentPodError } from '../../core/error.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command, CommandContext } from '../command.ts'
import { printChecks } from '../output/checks.ts'
import { missingWithoutRoot } from '../server/ordinary-user-check.ts'

export const command: Command = {
  usage: 'agentpod doctor [--json]',
  examples: ['agentpod doctor', 'agentpod doctor --json'],
  options: JSON_OPTION,
  words: { min: 0, max: 0 },
  async run(ctx, parsed) {
    const { terminal } = ctx
    const { checks, isRootless } = await collect(ctx)
    const isWell = checks.every(({ ok, required }) => ok || !required)
    if (parsed.has('json')) {
      terminal.out(JSON.stringify({ ok: isWell, checks }, null, 2))
      return isWell ? 0 : 6
    }
    if (isRootless) forUser(ctx, checks)
    else if (isWell) terminal.out('Sandboxes work here.')
    if (!isWell) terminal.out('Sandboxes do not work here yet: see what is missing below.')
    terminal.out('')
    printChecks(terminal, checks)
    return isWell ? 0 : 6
  },
}

/** First what works for this user, then what does not. */
function forUser({ terminal }: CommandContext, checks: readonly CheckView[]): void {
  if (checks.every(({ ok, required }) => ok || !required))
    terminal.out(
      `Sandboxes work here for ${userInfo().username}, without root: run, create, snapshot, fork, pause, agents.`,
    )
  const missing = missingWithoutRoot(checks)
  if (missing.length > 0) terminal.out('Not available:')
  for (const words of missing) terminal.out(`  ${words}`)
}

interface Collected {
  readonly checks: CheckView[]
  readonly isRootless: boolean
}

/** Problems of other providers do not count: sandboxes of the default one work. */
async function otherProviders(pod: AgentPod): Promise<CheckView[]> {
  const others = (await pod.providers()).filter(({ isDefault }) => !isDefault)
  const checks = await Promise.all(others.map(({ name }) => pod.checkProvider(name)))
  return checks.flat().map((check) => ({ ...check, required: false }))
}

/** A server that cannot start is the first finding, and the checks continue. */
async function collect(ctx: CommandContext): Promise<Collected> {
  try {
    const pod = await ctx.client()
    const { version, capabilities, isRoot } = await pod.server()
    const server: CheckView = {
      name: 'server',
      ok: true,
      required: true,
      detail: `version ${version}, state in ${ctx.home.root}`,
    }
    const notes = capabilities.notes.map(
      (note): CheckView => ({ name: 'note', ok: false, required: false, detail: note }),
    )
    const others = await otherProviders(pod)
    return { checks: [server, ...(await pod.checks()), ...notes, ...others], isRootless: !isRoot }
  } catch (thrown) {
    const { message, hint } = asAgentPodError(thrown)
    const server: CheckView = { name: 'server', ok: false, required: true, detail: message }
    return { checks: [{ ...server, ...(hint && { hint }) }], isRootless: false }
  }
}
