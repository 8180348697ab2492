import { PROCESS_OPTIONS } from '../args/options.ts'
import { checkCombination, refuse } from '../args/refuse.ts'
import { RUN_OPTIONS } from '../args/run-options.ts'
import type { Command } from '../command.ts'
import { execInTerminal } from '../sandbox/exec-in-terminal.ts'
import { LOGIN_SHELL } from '../sandbox/login-shell.ts'
import { runHere } from '../sandbox/run-here.ts'

const { json: _, ...OPTIONS } = RUN_OPTIONS
/** Options of a new sandbox; an existing one was created with its own. */
const OF_NEW = Object.keys(OPTIONS).filter(
  (option) => option !== 'no-terminal' && !Object.hasOwn(PROCESS_OPTIONS, option),
)

export const command: Command = {
  usage: 'agentpod shell [options] [NAME]',
  examples: [
    'agentpod shell box',
    'agentpod shell                    in a new sandbox on a copy of this directory',
    'agentpod shell --base debian --keep --name box',
  ],
  options: OPTIONS,
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    const name = parsed.words[0]
    checkCombination(parsed)
    if (name === undefined)
      return runHere(ctx, parsed, { program: '/bin/sh', args: LOGIN_SHELL, name: ['shell'] })
    refuse(
      parsed,
      OF_NEW,
      `is for a new sandbox, and ${name} exists already`,
      'leave out the name or the option',
    )
    const sandbox = await (await ctx.client()).get(name)
    return execInTerminal(ctx, sandbox, parsed, {
      program: '/bin/sh',
      args: LOGIN_SHELL,
      onSecondInterrupt: () => process.exit(130),
    })
  },
}
