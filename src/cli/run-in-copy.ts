/** A command on a copy of this repository. What it changed comes back as a branch, on the same way as an agent's work. */
import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import type { Sandbox } from '../client/sandbox.ts'
import { homeOf } from '../core/environment.ts'
import { AgentPodError } from '../core/error.ts'
import { stashIn } from '../sync/git/inside-prepare.ts'
import type { Repository } from '../sync/git/repository.ts'
import type { ResultHeader } from '../sync/git/result-header.ts'
import { ResultReader } from '../sync/git/result-reader.ts'
import { LARGEST_RESULT_FILE, resultScript } from '../sync/git/result-script.ts'
import { defined } from '../util/defined.ts'
import type { Parsed } from './args/parse.ts'
import type { CommandContext } from './command.ts'
import { type ExecWords, execIn } from './commands/exec.ts'
import { copyRepository, type RepositoryCopy } from './copy-repository.ts'
import { printable } from './output/terminal.ts'
import { scratchOf } from './project-objects.ts'

export async function beginInCopy(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
): Promise<{ readonly copy: RepositoryCopy; readonly sandbox: Sandbox }> {
  const copy = await copyRepository(ctx, parsed, repo)
  const pod = await ctx.client()
  const { labels } = copy.options
  const sandbox = await pod.create({
    ...copy.options,
    labels: { ...labels, 'agentpod/project': printable(copy.project.name).slice(0, 200) },
    // What is left out is what the snapshot was prepared with: nothing. So it says what it is.
    network: { mode: 'allowlist', allow: [], ...defined(copy.network) },
    lifetime: { ttlMs: DEFAULT_TTL_MS, whenOver: 'destroy', ...defined(copy.options.lifetime) },
    snapshot: copy.snapshot,
  })
  try {
    for (const { path, text } of copy.files)
      await sandbox.writeFile(path, Buffer.from(text), { user: copy.user })
  } catch (error) {
    await sandbox.destroy()
    throw error
  }
  return { copy, sandbox }
}

/** Also that is the snapshot's, whose sandbox had little to do. */
const DEFAULT_TTL_MS = 3_600_000

/** The exit code of the command. */
export function execInCopy(
  ctx: CommandContext,
  parsed: Parsed,
  { copy, sandbox }: { readonly copy: RepositoryCopy; readonly sandbox: Sandbox },
  words: Omit<ExecWords, 'cwd'>,
): Promise<number> {
  const cwd = copy.directory === '' ? copy.project.workspace : `${copy.project.workspace}/${copy.directory}`
  return execIn(ctx, sandbox, parsed, { ...words, cwd })
}

/** Says what the command changed, and makes a branch of it. What that takes is loaded only where it changed something. */
export async function bringBackCommand(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
  { copy, sandbox }: { readonly copy: RepositoryCopy; readonly sandbox: Sandbox },
  words: readonly string[],
): Promise<void> {
  using scratch = scratchOf(ctx.home, copy.project.key)
  const file = join(scratch.path, 'result.pack')
  const header = await take(sandbox, copy, file)
  const isSame = header.tree === copy.project.tree
  if (isSame && header.tooLarge.length + header.leftOut.length === 0) return
  const { branchOfCommand, showLeft } = await import('./branch-of-command.ts')
  if (isSame) {
    showLeft(ctx, header)
    return
  }
  await branchOfCommand(ctx, parsed, repo, {
    project: copy.project,
    header,
    file,
    scratch: scratch.path,
    words,
    isCommitted: copy.project.commit !== undefined && copy.state.changed.length === 0,
  })
}

function endless(): AgentPodError {
  return new AgentPodError({
    code: 'resource_exhausted',
    reason: 'result.too_large',
    message: 'what changed could not be read: it is too large, or no result at all',
    hint: 'list in .gitignore what does not belong into the repository',
  })
}

async function take(
  sandbox: Sandbox,
  { project, user }: RepositoryCopy,
  file: string,
): Promise<ResultHeader> {
  const { command, args } = resultScript({
    workspace: project.workspace,
    stash: stashIn(homeOf(user)),
    tree: project.tree,
    commit: project.commit,
    aside: project.aside ?? [],
    largestBytes: LARGEST_RESULT_FILE,
  })
  const child = sandbox.exec(command, { args, user, cwd: '/' })
  const out = openSync(file, 'w', 0o600)
  try {
    const reader = new ResultReader()
    let words = ''
    for await (const { stream, data } of child.output()) {
      if (stream === 'stderr') {
        words = (words + data.toString('utf8')).slice(-1000)
        continue
      }
      const pack = reader.push(data)
      if (typeof pack === 'string') throw endless()
      writeSync(out, pack)
    }
    if (reader.header && child.exit.exitCode === 0) return reader.header
    throw new AgentPodError({
      code: 'data_loss',
      reason: 'result.malformed',
      message: `what changed could not be read: ${printable(words.trim().split('\n').at(-1) ?? '').slice(0, 300)}`,
    })
  } finally {
    closeSync(out)
  }
}
