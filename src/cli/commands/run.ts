import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { AGENT_NAMES } from '../../agents/names.ts'
import type { Sandbox } from '../../client/sandbox.ts'
import { invalid, isAgentPodError } from '../../core/error.ts'
import { openRepository, type Repository } from '../../sync/git/repository.ts'
import { nearest } from '../../util/nearest.ts'
import { AGENT_OPTIONS } from '../args/agent-options.ts'
import {
  createOptions,
  JSON_OPTION,
  NETWORK_OPTIONS,
  PROCESS_OPTIONS,
  SANDBOX_OPTIONS,
  usualUser,
  variablesOf,
} from '../args/options.ts'
import { type Parsed, parseArgs } from '../args/parse.ts'
import { checkAgentRun, checkCommandRun, checkNoRepository } from '../args/refuse.ts'
import type { Command, CommandContext } from '../command.ts'
import { ENVIRONMENT_OPTIONS, environmentIn } from '../environment.ts'
import { networkOf } from '../network.ts'
import { printable } from '../output/terminal.ts'
import { placementOf } from '../placement.ts'
import { inEnvironment, openProject, type Project, sendProject, showChanges } from '../project.ts'
import type { ReadyEnvironment } from '../ready.ts'
import { createSandbox } from './create.ts'
import { execIn } from './exec.ts'

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
  usage: [
    'agentpod run AGENT PROMPT [options]',
    'agentpod run --agent AGENT[:N]... PROMPT [options]',
    'agentpod run [options] [--] COMMAND [ARG...]',
  ].join('\n       '),
  examples: [
    'agentpod run claude "fix the failing test"',
    'agentpod run --agent claude --agent codex:2 "make the parser faster" --time 30m --max-cost 5',
    'agentpod run claude --prompt-file task.md  or: ... | agentpod run claude -',
    'agentpod run -- npm test',
    'agentpod run --base debian -- python3 -V',
    'agentpod run --bare -- ls                 nothing detected, nothing built',
    'agentpod run --from golden -- npm test',
    'agentpod run --preset npm -- npm ci',
    'agentpod run --learn -- make              which hosts would it need?',
    'agentpod run --keep --name fix -- bash -c "sed -i s/a/b/ README.md"',
  ],
  options: { ...RUN_OPTIONS, ...AGENT_OPTIONS },
  // An agent's prompt may come from a file, from standard input or from an editor.
  words: { min: 0, max: 100_000, rest: true },
  async run(ctx, parsed) {
    const agents = agentsIn(parsed)
    if (agents) {
      checkAgentRun(agents.parsed)
      const [{ runAgents }, { promptOf }] = await Promise.all([
        import('../run-agents.ts'),
        import('../prompt.ts'),
      ])
      return runAgents(ctx, agents.parsed, agents.named, await promptOf(ctx, agents.parsed))
    }
    const [program, ...args] = parsed.words
    if (program === undefined) throw invalid('words.missing', 'missing arguments', command.usage)
    checkCommandRun(parsed)
    if (!parsed.isLiteral) checkAgentName(program, args, ctx.env)
    return runHere(ctx, parsed, program, args)
  },
}

/** Shorter words are near to too many programs. */
const SHORTEST_GUESS = 4

/** A word that is nearly an agent's name, with a prompt behind it, and no program here: said before anything is made. */
function checkAgentName(word: string, args: readonly string[], env: CommandContext['env']): void {
  const meant = word.length < SHORTEST_GUESS ? undefined : nearest(word.toLowerCase(), AGENT_NAMES)
  if (meant === undefined || args.length === 0 || word.includes('/')) return
  const isProgram = (env['PATH'] ?? '').split(':').some((at) => at !== '' && existsSync(join(at, word)))
  if (isProgram) return
  throw invalid(
    'agent.unknown',
    `there is no agent ${JSON.stringify(word)}`,
    `did you mean ${meant}? To run a program of this name: agentpod run -- ${word}`,
  )
}

/** Whether agents are asked for: by option, or by the name of one as the first word. Their options may stand behind the prompt. */
function agentsIn(
  parsed: Parsed,
): { readonly named: readonly string[]; readonly parsed: Parsed } | undefined {
  const [first = '', ...rest] = parsed.words
  const isNamed = !parsed.isLiteral && AGENT_NAMES.has((first.split(':', 1)[0] ?? '').toLowerCase())
  const named = parsed.values('agent')
  if (named.length === 0 && !isNamed) return undefined
  const words = isNamed && named.length === 0 ? rest : parsed.words
  const grammar = { ...command, words: { min: 0, max: 100_000 } }
  const whole = parsed.isLiteral ? parsed : parsed.with(parseArgs(words, grammar))
  return {
    named: named.length > 0 ? whole.values('agent') : [first, ...whole.values('agent')],
    parsed: whole,
  }
}

/** A command on a copy of this directory: of the repository, where it is in one. */
export async function runHere(
  ctx: CommandContext,
  parsed: Parsed,
  program: string,
  args: readonly string[],
  name: readonly string[] = [program, ...args],
): Promise<number> {
  // Loaded while git looks.
  const loading = isCopied(parsed) ? import('../run-in-copy.ts') : undefined
  const [repo] = await Promise.all([repositoryOf(ctx, parsed), loading])
  if (repo) return runInCopy(ctx, parsed, repo, { program, args, name })
  checkNoRepository(parsed)
  return runInNew(ctx, parsed, program, args)
}

function isCopied(parsed: Parsed): boolean {
  return !parsed.has('no-project') && parsed.value('from') === undefined
}

/** Undefined where there is none, and where something else than a copy of it is asked for. */
async function repositoryOf(ctx: CommandContext, parsed: Parsed): Promise<Repository | undefined> {
  if (!isCopied(parsed)) return undefined
  try {
    return await openRepository(ctx.cwd, ctx.env)
  } catch (error) {
    // Also where git does not work in it, its files can be copied as any others.
    if (isAgentPodError(error, 'failed_precondition') || isAgentPodError(error, 'unsupported'))
      return undefined
    throw error
  }
}

/** One command on a copy of a repository, and a branch of what it changed. */
async function runInCopy(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
  { program, args, name }: { program: string; args: readonly string[]; name: readonly string[] },
): Promise<number> {
  const { beginInCopy, bringBackCommand, execInCopy } = await import('../run-in-copy.ts')
  const begun = await beginInCopy(ctx, parsed, repo)
  const { sandbox } = begun
  return whileHeld(ctx, parsed, sandbox, async (onSecondInterrupt) => {
    const exitCode = await execInCopy(ctx, parsed, begun, { program, args, onSecondInterrupt })
    await showNetwork(ctx, parsed, sandbox, exitCode)
    await bringBackCommand(ctx, parsed, repo, begun, name)
    return exitCode
  })
}

/** Work in a sandbox that goes at the end, unless it is to be kept. */
async function whileHeld(
  ctx: CommandContext,
  parsed: Parsed,
  sandbox: Sandbox,
  work: (onSecondInterrupt: () => void) => Promise<number>,
): Promise<number> {
  const isKept = parsed.has('keep')
  let isGone = false
  const destroy = async (): Promise<void> => {
    if (isGone) return
    isGone = true
    await sandbox.destroy()
  }
  try {
    const exitCode = await work(() => {
      ctx.terminal.say('interrupted twice: destroying the sandbox')
      void destroy().finally(() => process.exit(130))
    })
    if (isKept)
      ctx.terminal.say(
        `kept: ${sandbox.id} (agentpod exec ${sandbox.info.name ?? sandbox.id} -- ..., agentpod destroy ${sandbox.info.name ?? sandbox.id})`,
      )
    return exitCode
  } finally {
    if (!isKept) await destroy()
  }
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
    prepared?.project ?? (parsed.has('no-project') ? undefined : await openProject(ctx, usualUser(parsed)))
  const ready = prepared ? prepared.ready : opened && (await environmentIn(ctx, parsed, opened))
  const project =
    opened && ready ? inEnvironment(opened, parsed.value('user') ?? ready.user, ready.aside) : opened
  const variables = variablesOf(parsed, ctx.env)
  // Where the project lies is where its user is at home.
  const user = project && parsed.has('image') ? usualUser(parsed) : undefined
  const placement = await placementOf(ctx, parsed, opened?.directory)
  const asked = createOptions(parsed, variables, ready ? { isAnyBase: true, placement } : { user, placement })
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
  return whileHeld(ctx, parsed, sandbox, async (onSecondInterrupt) => {
    if (project) await sendProject(ctx, sandbox, project)
    if (ready?.begins) await sandbox.begin()
    const cwd = project?.workspace
    const exitCode = await execIn(ctx, sandbox, parsed, { program, args, cwd, onSecondInterrupt })
    await showNetwork(ctx, parsed, sandbox, exitCode)
    if (project) await showChanges(ctx, sandbox, project, parsed.has('json'))
    return exitCode
  })
}

/** What it asked for on its way out: where that was asked to be learned, and where it failed, which may be why. */
async function showNetwork(
  { terminal }: CommandContext,
  parsed: Parsed,
  sandbox: Sandbox,
  exitCode: number,
): Promise<void> {
  if (parsed.has('learn')) {
    const [{ printSuggestion }, { decisionsOf }] = await Promise.all([
      import('./net.ts'),
      import('../output/refused-hosts.ts'),
    ])
    printSuggestion({ ...terminal, out: terminal.say }, await decisionsOf(sandbox))
  } else if (exitCode !== 0 && !parsed.has('json')) {
    const { showRefused } = await import('../output/refused-hosts.ts')
    await showRefused(terminal, sandbox)
  }
}

function label(name: string): string {
  return printable(name).slice(0, 200)
}
