/** What a command changed in its copy of the project, as lines. SECURITY: file names are hostile text. */
import { showHidden } from '../../util/hidden-characters.ts'
import { shellWord } from '../../util/shell/shell-word.ts'
import type { BranchChanges, CopyChanges } from '../../workbench/copy/project-copy.ts'
import { changeLines, gateLines } from './run-result-lines.ts'
import type { Terminal } from './terminal.ts'

export function printChanges(terminal: Terminal, changes: CopyChanges, isJson: boolean): void {
  const { say } = terminal
  switch (changes.kind) {
    case 'none':
      return
    case 'unknown':
      if (!isJson) say('the changes are not known: there is no git inside')
      return
    case 'patch':
      if (isJson) say(JSON.stringify({ changes: changes.changes, patch: changes.file }))
      else showPatch(terminal, changes)
      return
    case 'branch':
      if (isJson) showBranchJson(terminal, changes)
      else showBranch(terminal, changes)
  }
}

const LISTED = 50

function showPatch(
  { say, bold }: Terminal,
  { changes, file }: Extract<CopyChanges, { kind: 'patch' }>,
): void {
  say('')
  say(bold(countLine(changes.length)))
  for (const { kind, path, from } of changes.slice(0, LISTED))
    say(`  ${kind.padEnd(12)} ${showHidden(path)}${from === undefined ? '' : ` (from ${showHidden(from)})`}`)
  if (changes.length > LISTED) say(`  and ${changes.length - LISTED} more`)
  say(`to apply here: ${bold(`git apply ${shellWord(file)}`)}`)
}

function showBranchJson(terminal: Terminal, { branch, changes, gated }: BranchChanges): void {
  if (changes.length === 0) return
  const leftOut = gated.map(({ path }) => path)
  terminal.say(JSON.stringify({ changes, branch: branch ?? null, leftOut }))
}

function showBranch(terminal: Terminal, result: BranchChanges): void {
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
