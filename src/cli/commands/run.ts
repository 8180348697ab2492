import type { Sandbox } from '../../client/sandbox.ts'
import type { Seen } from '../../config/suggest.ts'
import {
  createOptions,
  JSON_OPTION,
  NETWORK_OPTIONS,
  PROCESS_OPTIONS,
  SANDBOX_OPTIONS,
  variablesOf,
} from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { ENVIRONMENT_OPTIONS, environmentIn } from '../environment.ts'
import { networkOf } from '../network.ts'
import { printable } from '../output/terminal.ts'
import { inEnvironment, openProject, type Project, sendProject, showChanges } from '../project.ts'
import type { ReadyEnvironment } from '../ready.ts'
import { createSandbox } from './create.ts'
import { execIn } from './exec.ts'
import { decisions, printSuggestion } from './net.ts'

export const RUN_OPTIONS = {
  ...SANDBOX_OPTIONS,
  ...NETWORK_OPTIONS,
  learn: { help: 'say afterwards which rules would have let it reach what it asked for' },
  ...PROCESS_OPTIONS,
  keep: { help: 'keep the sandbox afterwards' },
  ...ENVIRONMENT_OPTIONS,
  'no-project': { help: 'start empty instead of with a copy of this directory' },
  'no-terminal': { short: 'T', help: 'pipes, even on a terminal' },
  ...JSON_OPTION,
} as const

export const command: Command = {
  usage: 'agentpod run [options] [--] COMMAND [ARG...]',
  examples: [
    'agentpod run -- npm test',
    'agentpod run --base debian -- python3 -V',
    'agentpod run --bare -- ls                 nothing detected, nothing built',
    'agentpod run --from golden -- npm test',
    'agentpod run --preset npm -- npm ci',
    'agentpod run --learn -- make              which hosts would it need?',
    'agentpod run --keep --name fix -- bash -c "sed -i s/a/b/ README.md"',
  ],
  options: RUN_OPTIONS,
  words: { min: 1, max: 100_000, rest: true },
  async run(ctx, parsed) {
    const [program = '', ...args] = parsed.words
    return runInNew(ctx, parsed, program, args)
  },
}

/** A new sandbox on a copy of the project, one command in it, what it changed, and the end of the sandbox. */
export async function runInNew(
  ctx: CommandContext,
  parsed: Parsed,
  program: string,
  args: readonly string[],
  prepared?: { readonly project: Project; readonly ready: ReadyEnvironment | undefined },
): Promise<number> {
  const pod = await ctx.client()
  const opened =
    prepared?.project ??
    (parsed.has('no-project') ? undefined : await openProject(ctx, parsed.value('user') ?? 'user'))
  const ready = prepared ? prepared.ready : opened && (await environmentIn(ctx, parsed, opened))
  const project =
    opened && ready ? inEnvironment(opened, parsed.value('user') ?? ready.user, ready.aside) : opened
  const variables = variablesOf(parsed, ctx.env)
  const asked = createOptions(parsed, variables, ready ? { isAnyBase: true } : {})
  const options = ready ? ready.apply(asked) : asked
  const sandbox = await createSandbox(
    pod,
    {
      ...options,
      labels: { ...options.labels, ...(project && { 'agentpod/project': label(project.name) }) },
    },
    ctx.terminal,
    await networkOf(ctx, parsed, project?.directory, ready?.wish),
  )
  const isKept = parsed.has('keep')
  let isGone = false
  const destroy = async (): Promise<void> => {
    if (isGone) return
    isGone = true
    await sandbox.destroy()
  }
  try {
    if (project) await sendProject(ctx, sandbox, project)
    if (ready?.begins) await sandbox.begin()
    const exitCode = await execIn(ctx, sandbox, parsed, {
      program,
      args,
      cwd: project?.workspace,
      onSecondInterrupt: () => {
        ctx.terminal.say('interrupted twice: destroying the sandbox')
        void destroy().finally(() => process.exit(130))
      },
    })
    if (parsed.has('learn')) await showLearned(ctx, sandbox)
    if (project) await showChanges(ctx, sandbox, project, parsed.has('json'))
    if (isKept)
      ctx.terminal.say(
        `kept: ${sandbox.id} (agentpod exec ${sandbox.info.name ?? sandbox.id} -- ..., agentpod destroy ${sandbox.info.name ?? sandbox.id})`,
      )
    return exitCode
  } finally {
    if (!isKept) await destroy()
  }
}

/** The last decisions are on their way for a moment. */
const LEARN_AFTER_MS = 500

async function showLearned({ terminal }: CommandContext, sandbox: Sandbox): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, LEARN_AFTER_MS))
  const seen: Seen[] = []
  for await (const { data } of decisions(sandbox)) seen.push(data as unknown as Seen)
  printSuggestion({ ...terminal, out: terminal.say }, seen)
}

function label(name: string): string {
  return printable(name).slice(0, 200)
}
