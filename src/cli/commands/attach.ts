import type { Run } from '../../client/runs.ts'
import { AgentPodError } from '../../core/error.ts'
import { BRANCH_OPTION, EXECUTABLES_OPTION } from '../args/agent-options.ts'
import { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { type RunFinder, runFinder } from '../run-ref.ts'
import { lastEvent, watchRuns } from '../watch-runs.ts'
import { execIn } from './exec.ts'
import { LOGIN } from './shell.ts'

/** As a shell says it. */
const HUNG_UP = 129
const LATE_INTERRUPT_MS = 2000

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
      ['env', Object.entries({ ...colours(ctx), ...variables }).map(([name, value]) => `${name}=${value}`)],
    ]),
  )
  let code: number | undefined
  const closed = whenClosed(ctx, run)
  try {
    code = await execIn(ctx, await finder.pod.get(sandboxId), surroundings, {
      program,
      args,
      cwd: workdir,
    })
  } finally {
    // A program that was killed had no time to put back what it changed, and the next one to type here would be the person's shell.
    if (code === undefined || code > 128) ctx.terminal.stdout.write(ORDINARY)
    passOverInterrupts()
    await run.handBack().finally(() => closed[Symbol.dispose]())
  }
  return watchRuns(ctx, parsed, finder.repo, [run], { after: new Map([[run.id, after]]) })
}

/** Some programs leave at the first Ctrl-C and some at the second: one that comes just after the end was meant for the program. */
function passOverInterrupts(): void {
  const passOver = (): void => undefined
  process.on('SIGINT', passOver)
  setTimeout(() => process.off('SIGINT', passOver), LATE_INTERRUPT_MS).unref()
}

/** The screen that scrolls, no mouse, no word of the focus, pastes as they are, the usual keys, a cursor, no colours. */
const ORDINARY = [
  ...[1049, 1000, 1002, 1003, 1004, 1006, 2004].map((mode) => `\u001b[?${mode}l`),
  ...['\u001b[>4;0m', '\u001b[<u', '\u001b[?25h', '\u001b[0m', '\r\n'],
].join('')

/** A terminal that is closed ends this process. Without a word from it the program inside would go on, and what was done there would not be taken. */
function whenClosed({ terminal }: CommandContext, run: Run): Disposable {
  const leave = (): void => {
    // What it is written from now on fails, which nobody is left to be told.
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

/** Programs that draw tell people to get a better terminal where they do not find this. */
function colours({ env }: CommandContext): Record<string, string> {
  const { COLORTERM } = env
  return COLORTERM === undefined ? {} : { COLORTERM }
}
