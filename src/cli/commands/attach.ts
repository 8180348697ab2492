import type { Run } from '../../client/runs.ts'
import { AgentPodError } from '../../core/error.ts'
import { type RunFinder, runFinder } from '../../workbench/run/find-run.ts'
import { BRANCH_OPTION, EXECUTABLES_OPTION } from '../args/agent-options.ts'
import { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { lastEvent, watchRuns } from '../runs/watch-runs.ts'
import { execInTerminal } from '../sandbox/exec-in-terminal.ts'
import { LOGIN_SHELL } from '../sandbox/login-shell.ts'

/** The exit code that shells use for SIGHUP. */
const HUNG_UP = 129
const LATE_INTERRUPT_MS = 2000

export const command: Command = {
  usage: 'agentpod attach [--shell] [RUN]',
  examples: [
    'agentpod attach claude            continue its conversation yourself, in its own terminal',
    'agentpod attach --shell claude    a shell in its workspace, while it works',
  ],
  options: {
    shell: { help: 'open a shell in its workspace; a working agent continues' },
    ...BRANCH_OPTION,
    ...EXECUTABLES_OPTION,
  },
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    if (!ctx.terminal.isInteractive)
      throw new AgentPodError({
        code: 'failed_precondition',
        reason: 'attach.no_terminal',
        message: 'attach needs a terminal',
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
      message: 'the run has no sandbox yet',
      hint: `\`agentpod follow ${info.id}\` shows when it begins`,
    })
  const sandbox = await pod.get(info.sandboxId)
  return execInTerminal(ctx, sandbox, new Parsed([], new Map()), {
    program: '/bin/sh',
    args: LOGIN_SHELL,
    cwd: info.project?.workspace,
    onSecondInterrupt: () => process.exit(130),
  })
}

/** The agent ends, the user continues in its terminal, and the changes of both come back. */
async function takeOver(ctx: CommandContext, parsed: Parsed, finder: RunFinder, run: Run): Promise<number> {
  const { sandboxId, user, workdir, command: own, variables } = await run.takeOver()
  const after = await lastEvent(run)
  const isShell = parsed.has('shell') || own === null
  if (own === null && !parsed.has('shell'))
    ctx.terminal.say(`${run.info.agent} has no terminal of its own: this is a shell in its workspace`)
  const [program = '/bin/sh', ...args] = isShell ? ['/bin/sh', ...LOGIN_SHELL] : (own ?? [])
  const surroundings = new Parsed(
    [],
    new Map([
      ['user', [user]],
      ['env', Object.entries({ ...colours(ctx), ...variables }).map(([name, value]) => `${name}=${value}`)],
    ]),
  )
  let code: number | undefined
  const closed = whenClosed(ctx, run)
  try {
    code = await execInTerminal(ctx, await finder.pod.get(sandboxId), surroundings, {
      program,
      args,
      cwd: workdir,
    })
  } finally {
    // A killed program did not restore the terminal's modes, and the user's shell comes next.
    if (code === undefined || code > 128) ctx.terminal.stdout.write(ORDINARY)
    passOverInterrupts()
    await run.handBack().finally(() => closed[Symbol.dispose]())
  }
  return watchRuns(ctx, parsed, finder.repo, [run], { after: new Map([[run.id, after]]) })
}

/**
 * Some programs exit at the first Ctrl-C and some at the second, so a Ctrl-C just after the end was for the
 * program.
 */
function passOverInterrupts(): void {
  const passOver = (): void => undefined
  process.on('SIGINT', passOver)
  setTimeout(() => process.off('SIGINT', passOver), LATE_INTERRUPT_MS).unref()
}

/**
 * Restores the main screen, the cursor and the usual keys; turns off mouse, focus and paste reports and
 * colours.
 */
const ORDINARY = [
  ...[1049, 1000, 1002, 1003, 1004, 1006, 2004].map((mode) => `\u001b[?${mode}l`),
  ...['\u001b[>4;0m', '\u001b[<u', '\u001b[?25h', '\u001b[0m', '\r\n'],
].join('')

/**
 * Closing the terminal ends this process. Handing the run back first ends the program inside and takes its
 * changes.
 */
function whenClosed({ terminal }: CommandContext, run: Run): Disposable {
  const leave = (): void => {
    // Later writes to the closed terminal fail, and there is no one to report to.
    for (const stream of [terminal.stdin, terminal.stdout, terminal.stderr])
      stream.on('error', () => undefined)
    void run
      .handBack()
      .catch(() => undefined)
      .finally(() => process.exit(HUNG_UP))
  }
  process.once('SIGHUP', leave)
  return { [Symbol.dispose]: () => process.off('SIGHUP', leave) }
}

/** Without this variable some programs complain about the terminal. */
function colours({ env }: CommandContext): Record<string, string> {
  const { COLORTERM } = env
  return COLORTERM === undefined ? {} : { COLORTERM }
}
