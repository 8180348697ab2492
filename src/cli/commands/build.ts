import { agentNamed } from '../../agents/agents.ts'
import type { Built } from '../../client/builds.ts'
import { readLock, wishesOf } from '../../config/plan/lock.ts'
import { parseProjectBase } from '../../config/project/environment-table.ts'
import { DEFAULT_ENVIRONMENT } from '../../core/environment.ts'
import { AgentPodError, asAgentPodError } from '../../core/error.ts'
import { agentLayer } from '../agent-layer.ts'
import { imageOption, JSON_OPTION, SANDBOX_OPTIONS } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { BuildLog, megabytes } from '../output/build-log.ts'
import { StepLogs } from '../output/step-logs.ts'
import { printable } from '../output/terminal.ts'
import { placementOf } from '../placement.ts'
import { buildPlan, type PreparedPlan, planProject } from '../prepare-environment.ts'
import { openProject } from '../project.ts'
import { execIn } from './exec.ts'
import { LOGIN } from './shell.ts'

export const command: Command = {
  usage: 'agentpod build [options]',
  examples: [
    'agentpod build                          what `agentpod shell` would build, ahead',
    'agentpod build --agent claude           and the agent, so that its first run begins at once',
    'agentpod build --debug                  a shell where a step failed',
    'agentpod build --again dependencies/node',
    'agentpod build --frozen                 refuse where agentpod.lock is of another time',
  ],
  options: {
    base: { value: 'BASE', help: 'build on this base instead' },
    image: SANDBOX_OPTIONS.image,
    provider: SANDBOX_OPTIONS.provider,
    profile: { value: 'NAME', help: 'one of [profiles] in agentpod.toml' },
    agent: { value: 'NAME', help: 'build the layer of this agent too', repeat: true },
    debug: { help: 'where a step fails, open a shell in its sandbox' },
    again: { value: 'STEP', help: 'build this step, and those after it, although they are there' },
    frozen: { help: 'fail where agentpod.lock is missing or does not fit' },
    verbose: { short: 'v', help: 'show everything that the steps say' },
    ...JSON_OPTION,
  },
  words: { min: 0, max: 0 },
  async run(ctx, parsed) {
    const { terminal } = ctx
    const base = parsed.value('base')
    if (base !== undefined) parseProjectBase(base)
    const project = await openProject(ctx, 'user')
    const image = imageOption(parsed)
    const { provider } = await placementOf(ctx, parsed)
    const profile = parsed.value('profile')
    const prepared = await planProject(ctx, project, { base, image, provider, profile })
    if (parsed.has('frozen')) checkFrozen(project.directory, prepared)
    for (const name of parsed.values('agent'))
      await agentLayer(
        ctx,
        agentNamed(name),
        prepared?.recipe.base ?? { name: DEFAULT_ENVIRONMENT.base },
        provider,
      )
    if (!prepared || prepared.recipe.steps.length === 0) {
      if (parsed.has('json')) terminal.out(JSON.stringify({ digest: null, steps: 0 }))
      else terminal.say('there is nothing to build: the base has everything')
      return 0
    }
    for (const note of prepared.plan.notes) terminal.say(terminal.dim(`note: ${printable(note)}`))
    const built = await buildNow(ctx, parsed, prepared)
    if (typeof built === 'number') return built
    const { digest, base: foundation, sizeBytes: total } = built
    const { lockedBase } = prepared
    if (lockedBase !== undefined && foundation !== undefined && lockedBase !== foundation)
      terminal.say('note: the base is not the one in agentpod.lock: Debian has other packages for it by now')
    if (parsed.has('json'))
      terminal.out(JSON.stringify({ digest, steps: prepared.recipe.steps.length, sizeBytes: total }))
    else
      terminal.say(
        `${terminal.green('built')} ${prepared.recipe.steps.length} ${prepared.recipe.steps.length === 1 ? 'layer' : 'layers'}, ${megabytes(total)} on ${prepared.plan.base.value} (${digest?.slice(0, 12)})`,
      )
    return 0
  },
}

/** What was built, or the exit code of a shell that was opened where a step failed. */
async function buildNow(
  ctx: CommandContext,
  parsed: Parsed,
  prepared: PreparedPlan,
): Promise<Built | number> {
  const isDebug = parsed.has('debug')
  const log = new BuildLog(ctx.terminal, {
    isVerbose: parsed.has('verbose'),
    logs: new StepLogs(ctx.home, prepared.plan.name),
  })
  try {
    return await buildPlan(await ctx.client(), prepared, {
      ...log.options,
      keepFailed: isDebug,
      again: parsed.value('again'),
    })
  } catch (thrown) {
    log.fail(thrown)
    const error = asAgentPodError(thrown)
    const { sandbox } = error.details ?? {}
    if (!isDebug || typeof sandbox !== 'string') throw error
    ctx.terminal.say(`${ctx.terminal.red('failed')} ${printable(error.message)}`)
    return debug(ctx, parsed, sandbox, prepared)
  } finally {
    log.end()
  }
}

/** A shell in the sandbox of the step that failed, as the step's user would have it; the sandbox goes when the shell ends. */
async function debug(
  ctx: CommandContext,
  parsed: Parsed,
  id: string,
  { plan }: PreparedPlan,
): Promise<number> {
  const sandbox = await (await ctx.client()).get(id)
  ctx.terminal.say(`this is where it failed; the sandbox goes when you leave (project: ${plan.workspace})`)
  try {
    await execIn(ctx, sandbox, parsed, {
      program: '/bin/sh',
      args: LOGIN,
      onSecondInterrupt: () => undefined,
    })
    return 1
  } finally {
    await sandbox.destroy()
  }
}

function checkFrozen(directory: string, prepared: PreparedPlan | undefined): void {
  const lock = readLock(directory)
  const why = !lock
    ? 'there is no agentpod.lock'
    : prepared && lock.wishes !== wishesOf(prepared.plan)
      ? 'agentpod.lock was made for another agentpod.toml, or other files of the project'
      : undefined
  if (why === undefined) return
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'lock.stale',
    message: why,
    hint: '`agentpod config lock` makes it anew',
  })
}
