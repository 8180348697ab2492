import { lstat, mkdir, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, join } from 'node:path'
import type { Sandbox } from '../../client/sandbox.ts'
import type { Seen } from '../../config/suggest.ts'
import { AgentPodError, invalid } from '../../core/error.ts'
import { baselineScript, type Change, changesScript, parseChanges, type Script } from '../../sync/changes.ts'
import { listProject } from '../../sync/project.ts'
import { packFiles } from '../../sync/tar.ts'
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
import { networkOf } from '../network.ts'
import { printable } from '../output/terminal.ts'
import { createSandbox } from './create.ts'
import { execIn } from './exec.ts'
import { decisions, printSuggestion } from './net.ts'

export const RUN_OPTIONS = {
  ...SANDBOX_OPTIONS,
  ...NETWORK_OPTIONS,
  learn: { help: 'say afterwards which rules would have let it reach what it asked for' },
  ...PROCESS_OPTIONS,
  keep: { help: 'keep the sandbox afterwards' },
  'no-project': { help: 'start empty instead of with a copy of this directory' },
  'no-terminal': { short: 'T', help: 'pipes, even on a terminal' },
  ...JSON_OPTION,
} as const

export const command: Command = {
  usage: 'agentpod run [options] [--] COMMAND [ARG...]',
  examples: [
    'agentpod run -- npm test',
    'agentpod run --base debian -- python3 -V',
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
): Promise<number> {
  const pod = await ctx.client()
  const project = parsed.has('no-project')
    ? undefined
    : await openProject(ctx, parsed.value('user') ?? 'user')
  const variables = variablesOf(parsed, ctx.env)
  const options = createOptions(parsed, variables)
  const sandbox = await createSandbox(
    pod,
    {
      ...options,
      labels: { ...options.labels, ...(project && { 'agentpod/project': label(project.name) }) },
    },
    ctx.terminal,
    await networkOf(ctx, parsed, project?.directory),
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

interface Project {
  readonly directory: string
  readonly name: string
  readonly user: string
  /** Where the copy lies inside. */
  readonly workspace: string
  /** Where git inside keeps the tree as it was: in memory while that is small, since a disk takes longer over it than all the rest. */
  readonly baseline: string
  readonly files: readonly string[]
  hasBaseline: boolean
}

async function openProject(ctx: CommandContext, user: string): Promise<Project> {
  const directory = ctx.cwd
  if (directory === '/' || directory === homedir()) {
    throw invalid(
      'project.too_wide',
      `${directory} is not a project: everything in it would be copied into the sandbox`,
      'change to the directory of a project, or start empty with --no-project',
    )
  }
  const files = await listProject({ directory, exclude: [ctx.home.root], env: ctx.env })
  const name =
    basename(directory)
      .replaceAll(/[^\p{L}\p{N}._ -]/gu, '_')
      .replace(/^[-. ]+/, '') || 'project'
  const home = user === 'root' ? '/root' : `/home/${user}`
  const baseline = (await sizeOf(directory, files)) < SMALL_BYTES ? '/tmp' : home
  return { directory, name, user, workspace: `${home}/${name}`, baseline, files, hasBaseline: false }
}

const SMALL_BYTES = 64 * 1024 * 1024

async function sizeOf(directory: string, files: readonly string[]): Promise<number> {
  let bytes = 0
  for (const file of files) bytes += (await lstat(join(directory, file)).catch(() => undefined))?.size ?? 0
  return bytes
}

async function sendProject(ctx: CommandContext, sandbox: Sandbox, project: Project): Promise<void> {
  ctx.terminal.progress(`copying ${project.files.length} files`)
  await sandbox.unpack(project.workspace, packFiles(project.directory, project.files), { user: project.user })
  const result = await inside(sandbox, project, baselineScript(project.baseline, project.workspace))
  project.hasBaseline = result.exitCode === 0
  ctx.terminal.clearProgress()
}

async function showChanges(
  ctx: CommandContext,
  sandbox: Sandbox,
  project: Project,
  isJson: boolean,
): Promise<void> {
  const { terminal, home } = ctx
  const say = isJson ? (): void => undefined : terminal.say
  if (!project.hasBaseline) return say('what changed is not known: there is no working git inside')
  const result = await inside(sandbox, project, changesScript(project.baseline, project.workspace))
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
  say(`to apply here: ${terminal.bold(`git apply ${quote(file)}`)}`)
}

const LISTED = 50

function describe(change: Change): string {
  const from = change.from === undefined ? '' : ` (from ${printable(change.from)})`
  return `${change.kind.padEnd(12)} ${printable(change.path)}${from}`
}

/** A script of ours inside; its output is kept whole. */
async function inside(
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

function label(name: string): string {
  return printable(name).slice(0, 200)
}

function quote(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`
}
