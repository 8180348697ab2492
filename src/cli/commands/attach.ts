import type { Run } from '../../client/runs.ts'
import { AgentPodError } from '../../core/error.ts'
import { BRANCH_OPTION, EXECUTABLES_OPTION } from '../args/agent-options.ts'
import { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { type RunFinder, runFinder } from '../run-ref.ts'
import { lastEvent, watchRuns } from '../watch-runs.ts'
import { execIn } from './exec.ts'
import { LOGIN } from './shell.ts'

export const command: Command = {
  usage: 'agentpod attach [--shell] [RUN]',
  examples: [
    'agentpod attach claude            go on with it yourself, in its own terminal',
    'agentpod attach --shell claude    a shell beside it, while it works on',
  ],
  options: {
    shell: { help: 'a shell in its workspace; an agent at work is left at work' },
    ...BRANCH_OPTION,
    ...EXECUTABLES_OPTION,
  },
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    if (!ctx.terminal.isInteractive)
      throw new AgentPodError({
        code: 'failed_precondition',
        reason: 'attach.no_terminal',
        message: 'this needs a terminal',
        hint: '`agentpod exec SANDBOX -- COMMAND` runs something without one',
      })
    const finder = await runFinder(ctx)
    const run = await (await finder.find(parsed.words[0])).refresh()
    if (parsed.has('shell') && run.info.state !== 'ended') return shellBeside(ctx, finder, run)
    return takeOver(ctx, parsed, finder, run)
  },
}

async function shellBeside(ctx: CommandContext, { pod }: RunFinder, { info }: Run): Promise<number> {
  if (info.sandboxId === null)
    throw new AgentPodError({
      code: 'failed_precondition',
      reason: 'run.no_sandbox',
      message: 'it has no sandbox yet',
      hint: `\`agentpod follow ${info.id}\` shows when it begins`,
    })
  const sandbox = await pod.get(info.sandboxId)
  return execIn(ctx, sandbox, new Parsed([], new Map()), {
    program: '/bin/sh',
    args: LOGIN,
    cwd: info.project?.workspace,
    onSecondInterrupt: () => process.exit(130),
  })
}

/** The agent ends, a person goes on, and what both of them did comes back. */
async function takeOver(ctx: CommandContext, parsed: Parsed, finder: RunFinder, run: Run): Promise<number> {
  const { sandboxId, user, workdir, command: own, variables } = await run.takeOver()
  const after = await lastEvent(run)
  const isShell = parsed.has('shell') || own === null
  if (own === null && !parsed.has('shell'))
    ctx.terminal.say(`${run.info.agent} has no terminal of its own: this is a shell in its workspace`)
  const [program = '/bin/sh', ...args] = isShell ? ['/bin/sh', ...LOGIN] : (own ?? [])
  const surroundings = new Parsed(
    [],
    new Map([
      ['user', [user]],
      ['env', Object.entries(variables).map(([name, value]) => `${name}=${value}`)],
    ]),
  )
  try {
    await execIn(ctx, await finder.pod.get(sandboxId), surroundings, {
      program,
      args,
      cwd: workdir,
      onSecondInterrupt: () => undefined,
    })
  } finally {
    await run.handBack()
  }
  return watchRuns(ctx, parsed, finder.repo, [run], { after: new Map([[run.id, after]]) })
}
