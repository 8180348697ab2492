import type { Sandbox } from '../../client/sandbox.ts'
import { JSON_OPTION, PROCESS_OPTIONS, variablesOf } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { parseDuration } from '../args/values.ts'
import { attach } from '../attached.ts'
import type { Command, CommandContext } from '../command.ts'

export const command: Command = {
  usage: 'agentpod exec [options] NAME [--] COMMAND [ARG...]',
  examples: [
    'agentpod exec box -- python3 -c "print(1)"',
    'echo hello | agentpod exec box cat',
    "agentpod exec box 'ls | wc -l'",
    'agentpod exec -w /tmp -e A=1 box -- env',
  ],
  options: {
    ...PROCESS_OPTIONS,
    timeout: { value: 'TIME', help: 'end the command after this long' },
    'no-terminal': { short: 'T', help: 'pipes, even on a terminal' },
    ...JSON_OPTION,
  },
  words: { min: 2, max: 100_000, rest: true },
  async run(ctx, parsed) {
    const sandbox = await (await ctx.client()).get(parsed.word(0))
    const [program = '', ...args] = commandOf(parsed.words.slice(1))
    const timeout = parsed.value('timeout')
    return execIn(ctx, sandbox, parsed, {
      program,
      args,
      timeoutMs: timeout === undefined ? undefined : parseDuration(timeout, 'timeout'),
      onSecondInterrupt: () => process.exit(130),
    })
  },
}

/** One word with a space in it is a line for a shell, as with ssh; no program has such a name. */
function commandOf(words: readonly string[]): readonly string[] {
  const [only = ''] = words
  return words.length === 1 && /\s/.test(only) ? ['/bin/sh', '-c', only] : words
}

export interface ExecWords {
  readonly program: string
  readonly args: readonly string[]
  readonly cwd?: string | undefined
  readonly timeoutMs?: number | undefined
  readonly onSecondInterrupt?: (() => void) | undefined
}

/** Runs a command joined with this terminal, as `exec`, `run` and `shell` do. */
export async function execIn(
  ctx: CommandContext,
  sandbox: Sandbox,
  parsed: Parsed,
  words: ExecWords,
): Promise<number> {
  const { terminal, env } = ctx
  const common = {
    args: words.args,
    env: variablesOf(parsed, env),
    cwd: parsed.value('workdir') ?? words.cwd,
    user: parsed.value('user'),
    timeoutMs: words.timeoutMs,
  }
  if (parsed.has('json')) {
    const { stdout, stderr, exitCode, signal, oomKilled } = await sandbox.exec(words.program, common).wait()
    terminal.out(JSON.stringify({ exitCode, signal, oomKilled, stdout, stderr }))
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
