/** The sandbox that a command means when it names none: the one of the project that the user is in. */
import { posix } from 'node:path'
import type { Sandbox } from '../../client/sandbox.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { systemClock } from '../../util/clock.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import {
  findProjectSandbox,
  type ProjectChoice,
  type ProjectSandbox,
} from '../../workbench/project/project-sandboxes.ts'
import type { CommandContext } from '../command.ts'
import { span } from '../output/units.ts'

export interface ChosenSandbox {
  readonly sandbox: Sandbox
  /** The directory inside that matches the user's, if it exists; undefined if the user named the sandbox. */
  readonly workdir: string | undefined
  /** For JSON: which one was taken. Empty if the user named it. */
  readonly taken: { readonly sandbox?: TakenSandbox }
}

export interface TakenSandbox {
  readonly id: string
  readonly name: string | null
}

/** The sandbox of that name, or the project's if there is no name. */
export async function namedOrOwn(
  ctx: CommandContext,
  name: string | undefined,
  o: { readonly usage: string; readonly isJson: boolean },
): Promise<ChosenSandbox> {
  if (name === undefined) return ownSandbox(ctx, await findProjectSandbox(ctx), o)
  return named(await (await ctx.client()).get(name))
}

export function named(sandbox: Sandbox): ChosenSandbox {
  return { sandbox, workdir: undefined, taken: {} }
}

/** Takes what was found, and says so. `conflict` if several are equal, `not_found` if there is none. */
export async function ownSandbox(
  ctx: CommandContext,
  found: ProjectChoice,
  o: {
    readonly usage: string
    readonly isJson: boolean
    readonly unknownName?: string | undefined
    /** Fail if the sandbox lacks the user's directory, where the command is to run. */
    readonly needsDirectory?: boolean | undefined
  },
): Promise<ChosenSandbox> {
  if (found.kind === 'none') throw noSandbox(found.elsewhere, o.unknownName, o.usage)
  if (found.kind === 'several') throw severalSandboxes(found.all, o.usage)
  const { one } = found
  const { id, name, state } = one.info
  if (!o.isJson) ctx.terminal.say(ctx.terminal.dim(`in ${label(one)}, this project’s sandbox${wakes(state)}`))
  const sandbox = await (await ctx.client()).get(id)
  if (o.needsDirectory) await requireDirectory(sandbox, one)
  return { sandbox, workdir: one.workdir, taken: { sandbox: { id, name } } }
}

function wakes(state: ProjectSandbox['info']['state']): string {
  return state === 'running' ? '' : `, which was ${state}`
}

/**
 * The copy may not have the user's directory: it is new, or not part of the copy. In another one, a command
 * could remove the wrong files.
 */
async function requireDirectory(sandbox: Sandbox, one: ProjectSandbox): Promise<void> {
  const { workdir, workspace } = one
  if (workdir === workspace) return
  const found = await sandbox.stat(workdir).catch((error: unknown) => {
    if (!isAgentPodError(error, 'not_found')) throw error
    return undefined
  })
  if (found?.type === 'directory') return
  const below = showHidden(posix.relative(workspace, workdir))
  throw new AgentPodError({
    code: 'not_found',
    reason: 'project.no_directory',
    message: `${below} is not ${found ? 'a directory in' : 'in'} the sandbox ${label(one)}`,
    hint: `\`-w ${showHidden(workspace)}\` runs the command in the copy of the project; any other directory inside works too`,
  })
}

function label({ info: { id, name } }: ProjectSandbox): string {
  return name === null ? id : `${name} (${id})`
}

function noSandbox(
  elsewhere: readonly ProjectSandbox[],
  unknownName: string | undefined,
  usage: string,
): AgentPodError {
  const [other] = elsewhere
  const own = 'this project has no sandbox that runs or is kept'
  return new AgentPodError({
    code: 'not_found',
    reason: 'project.no_sandbox',
    message: unknownName === undefined ? own : `there is no sandbox ${unknownName}, and ${own}`,
    hint: other
      ? `another working tree has one, ${other.info.name ?? other.info.id} of ${showHidden(other.directory)}: name it; ${usage}`
      : `\`agentpod dev\` starts one, \`agentpod run --keep\` keeps one; or name one: ${usage}`,
  })
}

function ageOf({ info }: ProjectSandbox): string {
  return span(systemClock.now() - Date.parse(info.createdAt))
}

function severalSandboxes(all: readonly ProjectSandbox[], usage: string): AgentPodError {
  return new AgentPodError({
    code: 'conflict',
    reason: 'project.sandboxes',
    message: `this project has several sandboxes: ${all.map((one) => `${label(one)}, ${one.info.state}, ${ageOf(one)} old`).join('; ')}`,
    hint: `name one: ${usage}; \`agentpod destroy NAME\` removes one`,
    details: { sandboxes: all.map(({ info }) => info.id) },
  })
}
