/** A copy of a directory in a sandbox, and what became of it there. */

import { mkdir, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import type { Sandbox } from '../client/sandbox.ts'
import { homeOf } from '../core/environment.ts'
import { AgentPodError, invalid } from '../core/error.ts'
import { baselineScript, type Change, changesScript, parseChanges, type Script } from '../sync/changes.ts'
import { listProject, look } from '../sync/project.ts'
import { packFiles } from '../sync/tar.ts'
import { shellWord } from '../util/shell-word.ts'
import type { CommandContext } from './command.ts'
import { printable } from './output/terminal.ts'

export interface Project {
  readonly directory: string
  readonly name: string
  readonly user: string
  /** Where the copy lies inside. */
  readonly workspace: string
  /** Where git inside keeps the tree as it was: in memory while that is small, since a disk takes longer over it than all the rest. */
  readonly baseline: string
  readonly files: readonly string[]
  /** Directories inside that are not the project's: dependencies that the environment brings. */
  readonly aside: readonly string[]
  hasBaseline: boolean
}

export async function openProject(ctx: CommandContext, user: string): Promise<Project> {
  const directory = ctx.cwd
  if (directory === '/' || directory === homedir()) {
    throw invalid(
      'project.too_wide',
      `${directory} is not a project: everything in it would be copied into the sandbox`,
      'change to the directory of a project, or start empty with --no-project',
    )
  }
  const files = await listProject({ directory, exclude: [ctx.home.root], env: ctx.env })
  const name = plainName(basename(directory))
  const home = homeOf(user)
  const baseline = sizeOf(directory, files) < SMALL_BYTES ? '/tmp' : home
  return {
    directory,
    name,
    user,
    workspace: `${home}/${name}`,
    baseline,
    files,
    aside: [],
    hasBaseline: false,
  }
}

/** A directory's name as it is inside. */
export function plainName(name: string): string {
  const plain = name.replaceAll(/[^\p{L}\p{N}._ -]/gu, '_').replace(/^[-. ]+/, '') || 'project'
  // In a home directory that name is Go's.
  return plain === 'go' ? 'go-project' : plain
}

/** The project in an environment: what that brings is neither copied in nor looked at for changes. */
export function inEnvironment(project: Project, user: string, aside: readonly string[]): Project {
  const home = homeOf(user)
  const isAside = (file: string): boolean => aside.some((path) => file.startsWith(`${path}/`))
  return {
    ...project,
    user,
    aside,
    workspace: `${home}/${project.name}`,
    baseline: project.baseline === '/tmp' ? '/tmp' : home,
    files: project.files.filter((file) => !isAside(file)),
  }
}

const SMALL_BYTES = 64 * 1024 * 1024

function sizeOf(directory: string, files: readonly string[]): number {
  let bytes = 0
  for (const file of files) bytes += look(join(directory, file))?.size ?? 0
  return bytes
}

export async function sendProject(ctx: CommandContext, sandbox: Sandbox, project: Project): Promise<void> {
  ctx.terminal.progress(`copying ${project.files.length} files`)
  await sandbox.unpack(project.workspace, packFiles(project.directory, project.files), { user: project.user })
  const result = await inside(
    sandbox,
    project,
    baselineScript(project.baseline, project.workspace, project.aside),
  )
  project.hasBaseline = result.exitCode === 0
  ctx.terminal.clearProgress()
}

export async function showChanges(
  ctx: CommandContext,
  sandbox: Sandbox,
  project: Project,
  isJson: boolean,
): Promise<void> {
  const { terminal, home } = ctx
  const say = isJson ? (): void => undefined : terminal.say
  if (!project.hasBaseline) return say('what changed is not known: there is no working git inside')
  const result = await inside(
    sandbox,
    project,
    changesScript(project.baseline, project.workspace, project.aside),
  )
  if (result.exitCode !== 0) {
    throw new AgentPodError({
      code: 'internal',
      reason: 'changes.failed',
      message: `the changes could not be read: ${printable(result.stderr.toString('utf8').slice(0, 300))}`,
    })
  }
  const { changes, patch } = parseChanges(result.stdout)
  if (changes.length === 0) return
  await mkdir(home.patches, { recursive: true, mode: 0o700 })
  const file = join(
    home.patches,
    `${sandbox.info.name ?? sandbox.id}-${sandbox.info.createdAt.replaceAll(/[:.]/g, '')}.patch`,
  )
  await writeFile(file, patch, { mode: 0o600 })
  if (isJson) return terminal.say(JSON.stringify({ changes, patch: file }))
  say('')
  say(terminal.bold(`${changes.length} ${changes.length === 1 ? 'file' : 'files'} changed in the sandbox:`))
  for (const change of changes.slice(0, LISTED)) say(`  ${describe(change)}`)
  if (changes.length > LISTED) say(`  and ${changes.length - LISTED} more`)
  say(`to apply here: ${terminal.bold(`git apply ${shellWord(file)}`)}`)
}

const LISTED = 50

function describe(change: Change): string {
  const from = change.from === undefined ? '' : ` (from ${printable(change.from)})`
  return `${change.kind.padEnd(12)} ${printable(change.path)}${from}`
}

/** A script of ours inside; its output is kept whole. */
export async function inside(
  sandbox: Sandbox,
  project: Project,
  script: Script,
): Promise<{ exitCode: number; stdout: Buffer; stderr: Buffer }> {
  const child = sandbox.exec(script.command, { args: script.args, user: project.user, cwd: '/' })
  const parts = { stdout: [] as Buffer[], stderr: [] as Buffer[] }
  for await (const { stream, data } of child.output())
    parts[stream === 'stderr' ? 'stderr' : 'stdout'].push(data)
  return {
    exitCode: child.exit.exitCode,
    stdout: Buffer.concat(parts.stdout),
    stderr: Buffer.concat(parts.stderr),
  }
}
