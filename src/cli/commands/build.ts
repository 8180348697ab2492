import { agentNamed } from '../../agents/agents.ts'
import type { Built, BuiltDockerfile } from '../../client/builds.ts'
import { readLock, wishesHash } from '../../config/plan/lock.ts'
import { parseProjectBase } from '../../config/project/environment-table.ts'
import { DEFAULT_ENVIRONMENT } from '../../core/environment.ts'
import { AgentPodError, asAgentPodError } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { composeNotes, composePlan } from '../../workbench/compose/compose-plan.ts'
import { imageInfo } from '../../workbench/compose/image-info.ts'
import { memberImages } from '../../workbench/compose/member-images.ts'
import type { ProjectCompose } from '../../workbench/compose/project-compose.ts'
import { agentLayer } from '../../workbench/environment/agent-layer.ts'
import { buildCallbacks } from '../../workbench/environment/build-callbacks.ts'
import { detectProject } from '../../workbench/environment/detect-project.ts'
import { composeOf } from '../../workbench/environment/load-environment.ts'
import { placementOf } from '../../workbench/environment/placement.ts'
import {
  buildPlan,
  type EnvironmentPlanOptions,
  type PreparedPlan,
  planProject,
} from '../../workbench/environment/plan-environment.ts'
import { openProject, type Project } from '../../workbench/project/open-project.ts'
import {
  COMPOSE_OPTIONS,
  composeOptions,
  DEVCONTAINER_OPTIONS,
  devcontainerOptions,
  imageOption,
  JSON_OPTION,
  SANDBOX_OPTIONS,
} from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import type { Command, CommandContext } from '../command.ts'
import { allowInProject, BuildLog, megabytes } from '../output/build-log.ts'
import { StepLogs } from '../output/step-logs.ts'
import {
  buildDockerfileCommand,
  checkDockerfileOptions,
  DOCKERFILE_OPTIONS,
  debugDockerfile,
} from '../sandbox/build-dockerfile.ts'
import { execInTerminal } from '../sandbox/exec-in-terminal.ts'
import { LOGIN_SHELL } from '../sandbox/login-shell.ts'

/** A build runs no lifecycle commands. */
const { 'no-lifecycle': _, ...BUILD_DEVCONTAINER } = DEVCONTAINER_OPTIONS

export const command: Command = {
  usage: 'agentpod build [options] [-f DOCKERFILE [DIRECTORY]]',
  examples: [
    'agentpod build                          build the environment ahead of the first run',
    'agentpod build --agent claude           build the agent’s layer too',
    'agentpod build --debug                  open a shell where a step fails',
    'agentpod build --again dependencies/node',
    'agentpod build --service web            with the services of a compose file beside web',
    'agentpod build --frozen                 fail if agentpod.lock is out of date',
    'agentpod build -f Dockerfile -t app .   build a Dockerfile, and store the image as app',
  ],
  options: {
    base: { value: 'BASE', help: 'build on this base instead' },
    image: SANDBOX_OPTIONS.image,
    provider: SANDBOX_OPTIONS.provider,
    profile: { value: 'NAME', help: 'one of [profiles] in agentpod.toml' },
    agent: { value: 'NAME', help: 'build the layer of this agent too', repeat: true },
    debug: { help: 'open a shell in the sandbox of a step that fails' },
    again: { value: 'STEP', help: 'build this step and the following ones again' },
    frozen: { help: 'fail if agentpod.lock is missing or out of date' },
    ...COMPOSE_OPTIONS,
    ...BUILD_DEVCONTAINER,
    ...DOCKERFILE_OPTIONS,
    verbose: { short: 'v', help: 'show the whole output of the steps' },
    ...JSON_OPTION,
  },
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    const { terminal } = ctx
    checkDockerfileOptions(parsed)
    if (parsed.value('file') !== undefined) return buildDockerfileCommand(ctx, parsed)
    const base = parsed.value('base')
    if (base !== undefined) parseProjectBase(base)
    const project = await openProject(ctx, 'user')
    const image = imageOption(parsed)
    const { provider } = await placementOf(ctx, { provider: parsed.value('provider') }, ctx.cwd)
    const profile = parsed.value('profile')
    const asked = { base, image, profile, compose: composeOptions(parsed), ...devcontainerOptions(parsed) }
    const detected = detectProject(project)
    const compose = await composeOf(ctx, asked, project, detected)
    for (const text of compose ? composeNotes(compose) : []) ctx.person.notice({ kind: 'note', text })
    const composed = compose ? composePlan(compose, detected) : { detected }
    const planned = await planNow(ctx, parsed, project, { ...asked, provider, ...composed })
    if (typeof planned === 'number') return planned
    const { prepared } = planned
    const members = await buildMembers(ctx, parsed, { project, provider, prepared, compose })
    if (parsed.has('frozen')) checkFrozen(project.directory, prepared)
    for (const name of parsed.values('agent'))
      await agentLayer(
        ctx,
        agentNamed(name),
        prepared?.recipe.base ?? { name: DEFAULT_ENVIRONMENT.base },
        provider,
      )
    if (!prepared || prepared.recipe.steps.length === 0) {
      const { dockerfile } = prepared ?? {}
      if (parsed.has('json'))
        terminal.out(JSON.stringify({ digest: null, steps: 0, ...imageOf(dockerfile), ...members }))
      else if (!dockerfile && !members.services) terminal.say('nothing to build: the base has everything')
      return 0
    }
    for (const note of prepared.plan.notes) terminal.say(terminal.dim(`note: ${showHidden(note)}`))
    const built = await buildNow(ctx, parsed, prepared)
    if (typeof built === 'number') return built
    const { digest, base: foundation, sizeBytes: total } = built
    const { lockedBase } = prepared
    if (lockedBase !== undefined && foundation !== undefined && lockedBase !== foundation)
      terminal.say('note: the base differs from agentpod.lock: Debian has newer packages')
    if (parsed.has('json'))
      terminal.out(
        JSON.stringify({
          digest,
          steps: prepared.recipe.steps.length,
          sizeBytes: total,
          ...imageOf(prepared.dockerfile),
          ...members,
        }),
      )
    else
      terminal.say(
        `${terminal.green('built')} ${prepared.recipe.steps.length} ${prepared.recipe.steps.length === 1 ? 'layer' : 'layers'}, ${megabytes(total)} on ${prepared.plan.base.value} (${digest?.slice(0, 12)})`,
      )
    return 0
  },
}

/** The plan, with the image of its Dockerfile built, or the exit code of the shell that `--debug` opened. */
async function planNow(
  ctx: CommandContext,
  parsed: Parsed,
  project: Project,
  o: EnvironmentPlanOptions,
): Promise<{ readonly prepared: PreparedPlan | undefined } | number> {
  const { terminal } = ctx
  const isDebug = parsed.has('debug')
  using log = new BuildLog(terminal, {
    isVerbose: parsed.has('verbose'),
    logs: new StepLogs(ctx.home, project.name),
    allowHint: allowInProject,
  })
  try {
    const callbacks = { ...buildCallbacks(log), keepFailed: isDebug }
    const prepared = await planProject(ctx, project, { ...o, dockerfile: callbacks })
    const { dockerfile } = prepared ?? {}
    if (dockerfile && !parsed.has('json'))
      terminal.say(
        `${terminal.green('built')} ${prepared?.plan.resolvedBase.dockerfile?.file}: ${dockerfile.steps} ${dockerfile.steps === 1 ? 'step' : 'steps'}, ${megabytes(dockerfile.sizeBytes)}`,
      )
    return { prepared }
  } catch (thrown) {
    log.failed(thrown)
    return debugDockerfile(ctx, parsed, thrown)
  }
}

/** The images of the services that run beside the project. */
async function buildMembers(
  ctx: CommandContext,
  parsed: Parsed,
  o: {
    readonly project: Project
    readonly provider: string | undefined
    readonly prepared: PreparedPlan | undefined
    readonly compose: ProjectCompose | undefined
  },
): Promise<{ readonly services?: Readonly<Record<string, string>> }> {
  const group = o.prepared?.plan.devcontainer?.base.group
  const composed = o.compose ?? (group && !group.isAlone ? group.compose : undefined)
  if (!composed || !o.prepared) return {}
  const { compose, service } = composed
  const { project, provider } = o
  const images = await memberImages(ctx, {
    compose,
    main: service.name,
    project,
    wish: o.prepared.wish,
    provider,
  })
  const pod = await ctx.client()
  for (const [name, image] of images) {
    await imageInfo(pod, image.name, { provider, say: (line) => ctx.terminal.say(`${name}: ${line}`) })
    if (!parsed.has('json')) ctx.terminal.say(`${ctx.terminal.green('ready')} ${name}: ${image.name}`)
  }
  return images.size === 0
    ? {}
    : { services: Object.fromEntries([...images].map(([name, { ref }]) => [name, ref])) }
}

function imageOf(dockerfile: BuiltDockerfile | undefined): { image?: BuiltDockerfile['image'] } {
  return dockerfile?.image ? { image: dockerfile.image } : {}
}

/** The build, or the exit code of the shell that `--debug` opened. */
async function buildNow(
  ctx: CommandContext,
  parsed: Parsed,
  prepared: PreparedPlan,
): Promise<Built | number> {
  const isDebug = parsed.has('debug')
  using log = new BuildLog(ctx.terminal, {
    isVerbose: parsed.has('verbose'),
    logs: new StepLogs(ctx.home, prepared.plan.name),
  })
  try {
    return await buildPlan(await ctx.client(), prepared, {
      ...buildCallbacks(log),
      keepFailed: isDebug,
      again: parsed.value('again'),
    })
  } catch (thrown) {
    log.failed(thrown)
    const error = asAgentPodError(thrown)
    const { sandbox } = error.details ?? {}
    if (!isDebug || typeof sandbox !== 'string') throw error
    ctx.terminal.say(`${ctx.terminal.red('failed')} ${showHidden(error.message)}`)
    return debug(ctx, parsed, sandbox, prepared)
  }
}

/**
 * Opens a shell in the sandbox of the failed step, as the step's user. The sandbox is destroyed when the
 * shell ends.
 */
async function debug(
  ctx: CommandContext,
  parsed: Parsed,
  id: string,
  { plan }: PreparedPlan,
): Promise<number> {
  const sandbox = await (await ctx.client()).get(id)
  ctx.terminal.say(
    `a shell in the sandbox of the failed step; it is destroyed when you exit (project: ${plan.workspace})`,
  )
  try {
    await execInTerminal(ctx, sandbox, parsed, {
      program: '/bin/sh',
      args: LOGIN_SHELL,
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
    : prepared && lock.wishes !== wishesHash(prepared.plan)
      ? 'agentpod.lock is out of date: agentpod.toml or other project files have changed'
      : undefined
  if (why === undefined) return
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'lock.stale',
    message: why,
    hint: '`agentpod config lock` updates it',
  })
}
