/** Runs a command on a copy of the current directory, or of the repository that it is in. */
import { openCopy, repositoryToCopy } from '../../workbench/copy/open-copy.ts'
import { sandboxRequest, variableOptions } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { checkNoRepository } from '../args/refuse.ts'
import type { CommandContext } from '../command.ts'
import { type CopyCommand, runOnCopy } from './run-on-copy.ts'

export async function runHere(ctx: CommandContext, parsed: Parsed, command: CopyCommand): Promise<number> {
  const request = {
    ...sandboxRequest(parsed, variableOptions(parsed, ctx.env)),
    isEmpty: parsed.has('no-project'),
    isClean: parsed.has('clean'),
    isInteractive: command.isInteractive,
  }
  const repo = await repositoryToCopy(ctx, request)
  if (!repo) checkNoRepository(parsed)
  return runOnCopy(ctx, parsed, await openCopy(ctx, request, repo), command)
}
