/** Runs a command in a sandbox, connected to this terminal or to this command's pipes. */
import type { Sandbox } from '../../client/sandbox.ts'
import { variableOptions } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'
import { attach } from './attach-terminal.ts'

export interface ExecWords {
  readonly program: string
  readonly args: readonly string[]
  readonly cwd?: string | undefined
  readonly timeoutMs?: number | undefined
  readonly onSecondInterrupt?: (() => void) | undefined
  /** Fields for the answer in JSON. */
  readonly reported?: Readonly<Record<string, unknown>> | undefined
}

/** Gives the exit code of the command. */
export async function execInTerminal(
  ctx: CommandContext,
  sandbox: Sandbox,
  parsed: Parsed,
  words: ExecWords,
): Promise<number> {
  const { terminal, env } = ctx
  const common = {
    args: words.args,
    env: variableOptions(parsed, env),
    cwd: parsed.value('workdir') ?? words.cwd,
    user: parsed.value('user'),
    timeoutMs: words.timeoutMs,
  }
  if (parsed.has('json')) {
    const { stdout, stderr, exitCode, signal, oomKilled } = await sandbox.exec(words.program, common).wait()
    terminal.out(JSON.stringify({ ...words.reported, exitCode, signal, oomKilled, stdout, stderr }))
    return exitCode
  }
  const isTerminal = terminal.isInteractive && !parsed.has('no-terminal')
  const hasStdin = !terminal.stdin.isTTY
  const child = sandbox.exec(words.program, {
    ...common,
    stdin: hasStdin,
    env: isTerminal ? { TERM: env['TERM'] ?? 'xterm', ...common.env } : common.env,
    terminal: isTerminal ? { cols: terminal.stdout.columns, rows: terminal.stdout.rows } : undefined,
  })
  return attach({
    process: child,
    terminal,
    isTerminal,
    hasStdin,
    onSecondInterrupt: words.onSecondInterrupt,
  })
}
