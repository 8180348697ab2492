/** Runs a command on a copy of the project at this terminal, and shows what it changed. */
import type { Sandbox } from '../../client/sandbox.ts'
import type { CopyChanges, ProjectCopy } from '../../workbench/copy/project-copy.ts'
import { gateChoice } from '../args/gate-choice.ts'
import type { Parsed } from '../args/parse.ts'
import type { CommandContext } from '../command.ts'
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
    await showChanges(ctx, changes, parsed.has('json'))
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

export async function showChanges(ctx: CommandContext, changes: CopyChanges, isJson: boolean): Promise<void> {
  // Most commands change nothing; then the code that shows changes is not loaded.
  if (changes.kind === 'none') return
  const { printChanges } = await import('../output/copy-changes.ts')
  printChanges(ctx.terminal, changes, isJson)
}
