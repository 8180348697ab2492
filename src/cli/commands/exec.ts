import { JSON_OPTION, PROCESS_OPTIONS } from '../args/options.ts'
import { parseDuration } from '../args/values.ts'
import type { Command } from '../command.ts'
import { execInTerminal } from '../sandbox/exec-in-terminal.ts'

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
    timeout: { value: 'TIME', help: 'end the command after this time' },
    'no-terminal': { short: 'T', help: 'use pipes, even on a terminal' },
    ...JSON_OPTION,
  },
  words: { min: 2, max: 100_000, rest: true },
  async run(ctx, parsed) {
    const sandbox = await (await ctx.client()).get(parsed.word(0))
    const [program = '', ...args] = commandOf(parsed.words.slice(1))
    const timeout = parsed.value('timeout')
    return execInTerminal(ctx, sandbox, parsed, {
      program,
      args,
      timeoutMs: timeout === undefined ? undefined : parseDuration(timeout, 'timeout'),
      onSecondInterrupt: () => process.exit(130),
    })
  },
}

/** A single argument with a space in it is a line for a shell, as with ssh: no program has such a name. */
function commandOf(words: readonly string[]): readonly string[] {
  const [only = ''] = words
  return words.length === 1 && /\s/.test(only) ? ['/bin/sh', '-c', only] : words
}
