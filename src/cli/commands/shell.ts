import { findProjectSandbox } from '../../workbench/project/project-sandboxes.ts'
import { PROCESS_OPTIONS } from '../args/options.ts'
import { checkCombination, refuse } from '../args/refuse.ts'
import { RUN_OPTIONS } from '../args/run-options.ts'
import type { Command } from '../command.ts'
import { execInTerminal } from '../sandbox/exec-in-terminal.ts'
import { LOGIN_SHELL } from '../sandbox/login-shell.ts'
import { ownSandbox } from '../sandbox/project-sandbox.ts'
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
    'agentpod shell                    in the sandbox of this project, or in a new one on a copy of it',
    'agentpod shell --new              always in a new one',
    'agentpod shell --base debian --keep --name box',
  ],
  options: { ...OPTIONS, new: { help: 'open a new sandbox, even if this project has one' } },
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    const name = parsed.words[0]
    checkCombination(parsed)
    const onSecondInterrupt = (): never => process.exit(130)
    if (name !== undefined) {
      refuse(
        parsed,
        [...OF_NEW, 'new'],
        `is for a new sandbox, and ${name} exists already`,
        'leave out the name or the option',
      )
      const sandbox = await (await ctx.client()).get(name)
      return execInTerminal(ctx, sandbox, parsed, {
        program: '/bin/sh',
        args: LOGIN_SHELL,
        onSecondInterrupt,
      })
    }
    const isNew = parsed.has('new') || OF_NEW.some((option) => parsed.has(option))
    const found = isNew ? undefined : await findProjectSandbox(ctx)
    if (!found || found.kind === 'none')
      return runHere(ctx, parsed, {
        program: '/bin/sh',
        args: LOGIN_SHELL,
        name: ['shell'],
        isInteractive: true,
      })
    const { sandbox, workdir } = await ownSandbox(ctx, found, {
      usage: 'agentpod shell NAME, or --new for a new one',
      isJson: false,
      needsDirectory: !parsed.has('workdir'),
    })
    return execInTerminal(ctx, sandbox, parsed, {
      program: '/bin/sh',
      args: LOGIN_SHELL,
      cwd: workdir,
      onSecondInterrupt,
    })
  },
}
