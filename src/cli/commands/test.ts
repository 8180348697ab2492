import { AgentPodError, invalid } from '../../core/error.ts'
import { shellWord } from '../../util/shell-word.ts'
import { usualUser } from '../args/options.ts'
import { checkCombination } from '../args/refuse.ts'
import type { Command } from '../command.ts'
import { environmentIn } from '../environment.ts'
import { openProject } from '../project.ts'
import { RUN_OPTIONS, runInNew } from './run.ts'

// The tests are part of what the environment says, so there is none to leave out.
const { json: _, keep, 'no-project': __, bare: ___, from: ____, ...OPTIONS } = RUN_OPTIONS

export const command: Command = {
  usage: 'agentpod test [options] [--] [ARG...]',
  examples: [
    'agentpod test                           what the project’s own tests are, in a fresh sandbox',
    'agentpod test -- --watch=false          with words for the test command',
    'agentpod test --keep --name failing     keep the sandbox to look into',
  ],
  options: { ...OPTIONS, keep },
  words: { min: 0, max: 10_000, rest: true },
  async run(ctx, parsed) {
    checkCombination(parsed)
    const project = await openProject(ctx, usualUser(parsed))
    const ready = await environmentIn(ctx, parsed, project)
    const commands = ready?.commands.test ?? []
    if (commands.length === 0)
      throw new AgentPodError({
        code: 'failed_precondition',
        reason: 'test.unknown',
        message: 'what the tests of this project are is not known',
        hint: 'say it in agentpod.toml: [lifecycle] test = "..."',
      })
    if (parsed.words.length > 0 && commands.some(({ run }) => run.includes('\n')))
      throw invalid(
        'test.words',
        'the test command of this project has several lines; which one the words are for is not known',
        'leave the words out, or say one command in agentpod.toml: [lifecycle] test = "..."',
      )
    const script = commands.map(({ directory, run }) => inDirectory(directory, run)).join('\n')
    // The last word is the shell's name; what follows is for the test command.
    return runInNew(ctx, parsed, '/bin/sh', ['-c', `set -e\n${script}`, 'test', ...parsed.words], {
      project,
      ready,
    })
  },
}

/** One command takes the words of the caller; of several, each does. */
export function inDirectory(directory: string, run: string): string {
  const words = run.includes('\n') ? run : `${run} "$@"`
  return directory === '' ? `(\n${words}\n)` : `(cd ${shellWord(directory)}\n${words}\n)`
}
