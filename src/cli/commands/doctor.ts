import type { CheckView } from '../../api/schema/server.ts'
import { asAgentPodError } from '../../core/error.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command, CommandContext } from '../command.ts'

export const command: Command = {
  usage: 'agentpod doctor [--json]',
  examples: ['agentpod doctor', 'agentpod doctor --json'],
  options: JSON_OPTION,
  words: { min: 0, max: 0 },
  async run(ctx, parsed) {
    const { terminal } = ctx
    const checks = await collect(ctx)
    const isWell = checks.every(({ ok, required }) => ok || !required)
    if (parsed.has('json')) {
      terminal.out(JSON.stringify({ ok: isWell, checks }, null, 2))
      return isWell ? 0 : 6
    }
    for (const check of checks) {
      const mark = check.ok ? terminal.green('ok') : check.required ? terminal.red('missing') : 'limited'
      terminal.out(`${mark.padEnd(8)} ${check.name}: ${check.detail}`)
      if (!check.ok && check.hint) terminal.out(`         ${terminal.dim(check.hint)}`)
    }
    terminal.out(
      isWell ? 'Sandboxes work here.' : 'Sandboxes do not work here yet: see what is missing above.',
    )
    return isWell ? 0 : 6
  },
}

/** A server that cannot start is the first finding, not the end of the search. */
async function collect(ctx: CommandContext): Promise<CheckView[]> {
  try {
    const pod = await ctx.client()
    const { version, capabilities } = await pod.server()
    const server: CheckView = {
      name: 'server',
      ok: true,
      required: true,
      detail: `version ${version}, state in ${ctx.home.root}`,
    }
    const notes = capabilities.notes.map(
      (note): CheckView => ({ name: 'note', ok: false, required: false, detail: note }),
    )
    return [server, ...(await pod.checks()), ...notes]
  } catch (thrown) {
    const { message, hint } = asAgentPodError(thrown)
    return [{ name: 'server', ok: false, required: true, detail: message, ...(hint && { hint }) }]
  }
}
