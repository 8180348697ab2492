/** What a command changed in a copy of a repository, shown and made into a branch. */
import { existsSync } from 'node:fs'
import { type Branch, makeBranch } from '../sync/git/branch.ts'
import { freeBranchName, slugOf } from '../sync/git/branch-name.ts'
import type { GatedFile } from '../sync/git/gate.ts'
import { type Received, receive } from '../sync/git/receive.ts'
import type { Repository } from '../sync/git/repository.ts'
import type { ResultHeader } from '../sync/git/result-header.ts'
import { systemClock } from '../util/clock.ts'
import { shellWord } from '../util/shell-word.ts'
import { branchTemplate } from './agent-settings.ts'
import { gateChoice } from './args/gate-choice.ts'
import type { Parsed } from './args/parse.ts'
import { leftBehind } from './bring-back.ts'
import type { CommandContext } from './command.ts'
import type { RepositoryCopy } from './copy-repository.ts'
import { COMMAND_TRAILER } from './named-branch.ts'
import { changeLines, gateLines } from './output/run-result-lines.ts'
import { printable } from './output/terminal.ts'
import { startObjects } from './project-objects.ts'

export interface CommandResult {
  readonly project: RepositoryCopy['project']
  readonly header: ResultHeader
  /** The pack that came with it. */
  readonly file: string
  /** A directory of ours that outlives this. */
  readonly scratch: string
  readonly words: readonly string[]
  /** Whether it began with what is committed. */
  readonly isCommitted: boolean
}

export async function branchOfCommand(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
  { project, header, file, scratch, words, isCommitted }: CommandResult,
): Promise<void> {
  const start = startObjects(ctx.home, project.key, project.tree)
  const received = await receive(repo, {
    tree: project.tree,
    commit: project.commit,
    expected: header.tree,
    pack: file,
    scratch,
    alsoObjects: existsSync(start) ? [start] : [],
  })
  const isJson = parsed.has('json')
  const leftOut = await leftBehind(ctx, 'it', received.gate, { withGated: gateChoice(parsed), isJson })
  const branch = await branchOf(ctx, parsed, repo, received, { leftOut, words, isCommitted })
  show(ctx, received, header, branch, leftOut, isJson)
}

async function branchOf(
  ctx: CommandContext,
  parsed: Parsed,
  repo: Repository,
  received: Received,
  o: {
    readonly leftOut: readonly GatedFile[]
    readonly words: readonly string[]
    readonly isCommitted: boolean
  },
): Promise<Branch | undefined> {
  const command = o.words.map(shellWord).join(' ')
  const template = branchTemplate(ctx, parsed, repo.root)
  const name = await freeBranchName(repo, template, { slug: slugOf(command), agent: 'run', n: 1 }, 'number')
  return makeBranch(repo, received, {
    name,
    message: messageOf(command, o.isCommitted),
    coAuthor: undefined,
    startMessage: 'Uncommitted files before the command ran',
    leftOut: o.leftOut.map(({ path }) => path),
    now: systemClock.now(),
  })
}

/** The last line is how `agentpod diff` and the others know the branch. */
function messageOf(command: string, isCommitted: boolean): string {
  const line = command.replaceAll(/\p{C}/gu, ' ')
  return [
    `Run ${line.slice(0, 68)}`,
    `What this command changed in a sandbox:\n\n    ${line.slice(0, 2000)}`,
    `${COMMAND_TRAILER}: ${isCommitted ? 'committed' : 'uncommitted'}`,
  ].join('\n\n')
}

/** What is in no branch, whatever is said. */
export function showLeft({ terminal }: CommandContext, { tooLarge, leftOut }: ResultHeader): void {
  for (const { path } of tooLarge) terminal.say(`left out, since it is too large: ${printable(path)}`)
  for (const path of leftOut)
    terminal.say(`left out, since its name is not for git or it cannot be read: ${printable(path)}`)
}

function show(
  ctx: CommandContext,
  received: Received,
  header: ResultHeader,
  branch: Branch | undefined,
  leftOut: readonly GatedFile[],
  isJson: boolean,
): void {
  const { terminal } = ctx
  const { changes } = received
  if (isJson) {
    const left = leftOut.map(({ path }) => path)
    terminal.say(JSON.stringify({ changes, branch: branch?.name ?? null, leftOut: left }))
    return
  }
  const say = terminal.say
  say('')
  say(terminal.bold(`${changes.length} ${changes.length === 1 ? 'file' : 'files'} changed in the sandbox:`))
  for (const line of changeLines(terminal, changes)) say(line)
  for (const note of received.notes) say(terminal.dim(`note: ${printable(note)}`))
  showLeft(ctx, header)
  if (leftOut.length > 0) {
    say(terminal.bold('left out, since they run later on this machine:'))
    for (const line of gateLines(terminal, leftOut)) say(line)
    say(terminal.dim('  run it again with --with-executables, or --take PATH for one of them'))
  }
  if (!branch) return
  say(`branch ${terminal.bold(branch.name)}`)
  say(terminal.dim(`  look at it              agentpod diff ${branch.name}`))
  say(terminal.dim(`  into your working tree  agentpod apply ${branch.name}`))
  say(terminal.dim(`  into your branch        agentpod merge ${branch.name}`))
}
