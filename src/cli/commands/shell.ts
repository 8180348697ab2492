import { PROCESS_OPTIONS } from '../args/options.ts'
import { checkCombination, refuse } from '../args/refuse.ts'
import type { Command } from '../command.ts'
import { execIn } from './exec.ts'
import { RUN_OPTIONS, runHere } from './run.ts'

const { json: _, ...OPTIONS } = RUN_OPTIONS
/** What a sandbox is made with; one that is there has it already. */
const OF_NEW = Object.keys(OPTIONS).filter(
  (option) => option !== 'no-terminal' && !Object.hasOwn(PROCESS_OPTIONS, option),
)

/** The user's shell inside; `bash` where there is one. */
export const LOGIN = ['-c', 'if [ -x /bin/bash ]; then exec /bin/bash -l; else exec /bin/sh -l; fi'] as const

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
    if (name === undefined) return runHere(ctx, parsed, '/bin/sh', LOGIN, ['shell'])
    refuse(parsed, OF_NEW, `is for a new sandbox, and ${name} is there`, 'leave out the name, or the option')
    const sandbox = await (await ctx.client()).get(name)
    return execIn(ctx, sandbox, parsed, {
      program: '/bin/sh',
      args: LOGIN,
      onSecondInterrupt: () => process.exit(130),
    })
  },
}
