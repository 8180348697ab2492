import { AgentPodError, invalid } from '../../core/error.ts'
import { openDirectoryCopy } from '../../workbench/copy/open-copy.ts'
import { loadEnvironment } from '../../workbench/environment/load-environment.ts'
import { usualUser } from '../../workbench/environment/sandbox-request.ts'
import { testScript } from '../../workbench/environment/test-script.ts'
import { openProject } from '../../workbench/project/open-project.ts'
import { sandboxRequest, variableOptions } from '../args/options.ts'
import { checkCombination } from '../args/refuse.ts'
import { RUN_OPTIONS } from '../args/run-options.ts'
import type { Command } from '../command.ts'
import { runOnCopy } from '../sandbox/run-on-copy.ts'

// The environment names the tests, so it cannot be left out.
const { json: _, keep, 'no-project': __, bare: ___, from: ____, ...OPTIONS } = RUN_OPTIONS

export const command: Command = {
  usage: 'agentpod test [options] [--] [ARG...]',
  examples: [
    'agentpod test                           run the project’s own tests in a new sandbox',
    'agentpod test -- --watch=false          pass arguments to the test command',
    'agentpod test --keep --name failing     keep the sandbox',
  ],
  options: { ...OPTIONS, keep },
  words: { min: 0, max: 10_000, rest: true },
  async run(ctx, parsed) {
    checkCombination(parsed)
    const request = sandboxRequest(parsed, variableOptions(parsed, ctx.env))
    const project = await openProject(ctx, usualUser(request))
    const ready = await loadEnvironment(ctx, request, project)
    const commands = ready?.commands.test ?? []
    if (commands.length === 0)
      throw new AgentPodError({
        code: 'failed_precondition',
        reason: 'test.unknown',
        message: 'no test command was found for this project',
        hint: 'set one in agentpod.toml: [lifecycle] test = "..."',
      })
    if (parsed.words.length > 0 && commands.some(({ run }) => run.includes('\n')))
      throw invalid(
        'test.words',
        'arguments cannot be passed to a test command of several lines',
        'leave them out, or set a single command in agentpod.toml: [lifecycle] test = "..."',
      )
    const copy = await openDirectoryCopy(ctx, request, { project, ready })
    return runOnCopy(ctx, parsed, copy, {
      program: '/bin/sh',
      // `test` is the shell's name; the words after it go to the test command.
      args: ['-c', testScript(commands), 'test', ...parsed.words],
    })
  },
}
