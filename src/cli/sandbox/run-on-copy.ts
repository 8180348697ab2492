/** Runs a command on a copy of the project at this terminal, and shows what it changed. */
import type { Sandbox } from '../../client/sandbox.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { shellWord } from '../../util/shell/shell-word.ts'
import type { BranchChanges, CopyChanges, ProjectCopy } from '../../workbench/copy/project-copy.ts'
import { gateChoice } from '../args/gate-choice.ts'
import type { Parsed } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'
import { changeLines, gateLines } from '../output/run-result-lines.ts'
import { execInTerminal } from './exec-in-terminal.ts'

export interface CopyCommand {
  readonly program: string
  readonly args: readonly string[]
  /** What the branch is named after; the command itself by default. */
  readonly name?: readonly string[] | undefined
  /** Whether a person uses it, who does not wait for what a devcontainer runs in the background. */
  readonly isInteractive?: boolean | undefined
}

/** Gives the exit code of the command. The sandbox is destroyed, unless `--keep` is given. */
export async function runOnCopy(
  ctx: CommandContext,
  parsed: Parsed,
  copy: ProjectCopy,
  { program, args, name = [program, ...args] }: CopyCommand,
): Promise<number> {
  return whileHeld(ctx, parsed, copy.sandbox, async (onSecondInterrupt) => {
    const cwd = copy.workdir
    const exitCode = await execInTerminal(ctx, copy.sandbox, parsed, {
      program,
      args,
      cwd,
      onSecondInterrupt,
    })
    await showNetwork(ctx, parsed, copy.sandbox, exitCode)
    const template = parsed.value('branch')
    const changes = await copy.bringBack({ command: name, template, withGated: gateChoice(parsed) })
    showChanges(ctx, changes, parsed.has('json'))
    return exitCode
  })
}

/** Works in a sandbox and destroys it afterwards, unless it is to be kept. */
async function whileHeld(
  { terminal }: CommandContext,
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
      terminal.say('interrupted twice: destroying the sandbox')
      void destroy().finally(() => process.exit(130))
    })
    if (isKept) terminal.say(keptLine(sandbox))
    return exitCode
  } finally {
    if (!isKept) await destroy()
  }
}

export function keptLine({ id, info }: Sandbox): string {
  const name = info.name ?? id
  return `kept: ${id} (agentpod exec ${name} -- ..., agentpod destroy ${name})`
}

/** Shows what it tried to reach: after `--learn`, and after a failure, which a refusal may explain. */
async function showNetwork(
  { terminal }: CommandContext,
  parsed: Parsed,
  sandbox: Sandbox,
  exitCode: number,
): Promise<void> {
  if (parsed.has('learn')) {
    const [{ printSuggestion }, { decisionsOf }] = await Promise.all([
      import('../output/network-decisions.ts'),
      import('../output/refused-hosts.ts'),
    ])
    printSuggestion({ ...terminal, out: terminal.say }, await decisionsOf(sandbox))
  } else if (exitCode !== 0 && !parsed.has('json')) {
    const { showRefused } = await import('../output/refused-hosts.ts')
    await showRefused(terminal, sandbox)
  }
}

export function showChanges(ctx: CommandContext, changes: CopyChanges, isJson: boolean): void {
  const { say } = ctx.terminal
  switch (changes.kind) {
    case 'none':
      return
    case 'unknown':
      if (!isJson) say('the changes are not known: there is no git inside')
      return
    case 'patch':
      if (isJson) say(JSON.stringify({ changes: changes.changes, patch: changes.file }))
      else showPatch(ctx, changes)
      return
    case 'branch':
      if (isJson) showBranchJson(ctx, changes)
      else showBranch(ctx, changes)
  }
}

const LISTED = 50

function showPatch(
  { terminal }: CommandContext,
  { changes, file }: Extract<CopyChanges, { kind: 'patch' }>,
): void {
  const { say, bold } = terminal
  say('')
  say(bold(countLine(changes.length)))
  for (const { kind, path, from } of changes.slice(0, LISTED))
    say(`  ${kind.padEnd(12)} ${showHidden(path)}${from === undefined ? '' : ` (from ${showHidden(from)})`}`)
  if (changes.length > LISTED) say(`  and ${changes.length - LISTED} more`)
  say(`to apply here: ${bold(`git apply ${shellWord(file)}`)}`)
}

function showBranchJson({ terminal }: CommandContext, { branch, changes, gated }: BranchChanges): void {
  if (changes.length === 0) return
  const leftOut = gated.map(({ path }) => path)
  terminal.say(JSON.stringify({ changes, branch: branch ?? null, leftOut }))
}

function showBranch({ terminal }: CommandContext, result: BranchChanges): void {
  const { say, bold, dim } = terminal
  const { branch, changes, notes, gated, tooLarge, unusable } = result
  if (changes.length > 0) {
    say('')
    say(bold(countLine(changes.length)))
    for (const line of changeLines(terminal, changes)) say(line)
    for (const note of notes) say(dim(`note: ${showHidden(note)}`))
  }
  for (const path of tooLarge) say(`left out, because it is too large: ${showHidden(path)}`)
  for (const path of unusable)
    say(`left out, because git cannot store its name or it cannot be read: ${showHidden(path)}`)
  if (gated.length > 0) {
    say(bold('left out, because they would run later on this machine:'))
    for (const line of gateLines(terminal, gated)) say(line)
    say(dim('  to take them, run it again with --with-executables, or --take PATH for one of them'))
  }
  if (branch === undefined) return
  say(`branch ${bold(branch)}`)
  say(dim(`  show the changes        agentpod diff ${branch}`))
  say(dim(`  into your working tree  agentpod apply ${branch}`))
  say(dim(`  into your branch        agentpod merge ${branch}`))
}

function countLine(count: number): string {
  return `${count} ${count === 1 ? 'file' : 'files'} changed in the sandbox:`
}
