import type { AgentPod } from '../../client/client.ts'
import type { Sandbox } from '../../client/sandbox.ts'
import { invalid, isAgentPodError } from '../../core/error.ts'
import { isName } from '../../core/id.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { findProjectSandbox } from '../../workbench/project/project-sandboxes.ts'
import { JSON_OPTION, PROCESS_OPTIONS } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { parseDuration } from '../args/values.ts'
import type { Command, CommandContext } from '../command.ts'
import { execInTerminal } from '../sandbox/exec-in-terminal.ts'
import { type ChosenSandbox, named, ownSandbox } from '../sandbox/project-sandbox.ts'

export const command: Command = {
  usage: 'agentpod exec [options] [NAME] [--] COMMAND [ARG...]',
  examples: [
    'agentpod exec box -- python3 -c "print(1)"',
    'echo hello | agentpod exec box cat',
    "agentpod exec box 'ls | wc -l'",
    'agentpod exec -w /tmp -e A=1 box -- env',
    'agentpod exec "npm test"          in the sandbox of this project, from `dev` or kept',
    'agentpod exec -- npm test -- --watch',
  ],
  options: {
    ...PROCESS_OPTIONS,
    timeout: { value: 'TIME', help: 'end the command after this time' },
    'no-terminal': { short: 'T', help: 'use pipes, even on a terminal' },
    ...JSON_OPTION,
  },
  words: { min: 1, max: 100_000, rest: true, before: 1 },
  async run(ctx, parsed) {
    const { words, ...chosen } = await chooseSandbox(ctx, parsed)
    const [program = '', ...args] = commandOf(words)
    const timeout = parsed.value('timeout')
    return execInTerminal(ctx, chosen.sandbox, parsed, {
      program,
      args,
      cwd: chosen.workdir,
      reported: chosen.taken,
      timeoutMs: timeout === undefined ? undefined : parseDuration(timeout, 'timeout'),
      onSecondInterrupt: () => process.exit(130),
    })
  },
}

/**
 * The first word is the name of a sandbox if one has it, or if `--` follows; otherwise it belongs to the
 * command, which runs in the project's sandbox.
 */
async function chooseSandbox(
  ctx: CommandContext,
  parsed: Parsed,
): Promise<ChosenSandbox & { readonly words: readonly string[] }> {
  const [first = '', ...others] = parsed.words
  const pod = await ctx.client()
  const sandbox = parsed.wordsBefore === 1 ? await pod.get(first) : await sandboxNamed(pod, parsed)
  if (sandbox && others.length === 0)
    throw invalid(
      'words.missing',
      `${showHidden(first)} is the name of a sandbox, and no command follows`,
      `\`agentpod exec ${first} -- COMMAND\` runs a command in it, \`agentpod exec -- ${first}\` runs ${first} in the sandbox of this project`,
    )
  if (sandbox) return { ...named(sandbox), words: others }
  const own = await ownSandbox(ctx, await findProjectSandbox(ctx), {
    usage: 'agentpod exec NAME -- COMMAND',
    isJson: parsed.has('json'),
    needsDirectory: !parsed.has('workdir'),
    unknownName: parsed.isLiteral || !isName(first) ? undefined : first,
  })
  return { ...own, words: parsed.words }
}

async function sandboxNamed(
  pod: AgentPod,
  { isLiteral, words: [first = ''] }: Parsed,
): Promise<Sandbox | undefined> {
  if (isLiteral || !isName(first)) return undefined
  try {
    return await pod.get(first)
  } catch (error) {
    if (!isAgentPodError(error, 'not_found')) throw error
    return undefined
  }
}

/** A single argument with a space in it is a line for a shell, as with ssh: no program has such a name. */
function commandOf(words: readonly string[]): readonly string[] {
  const [only = ''] = words
  return words.length === 1 && /\s/.test(only) ? ['/bin/sh', '-c', only] : words
}
