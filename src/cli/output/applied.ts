/** Prints what `apply` and `merge` wrote into the working tree. */
import type { Applied } from '../../sync/git/apply/apply.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import type { Terminal } from './terminal.ts'

const LISTED = 30

export function showApplied(
  terminal: Terminal,
  { written, removed, merged, already }: Applied,
  isCheck: boolean,
): void {
  const would = isCheck ? 'would be ' : ''
  const lines = [
    ...written.map((path) => `${would}written  ${showHidden(path)}`),
    ...merged.map((path) => `${would}merged   ${showHidden(path)}`),
    ...removed.map((path) => `${would}removed  ${showHidden(path)}`),
  ]
  for (const line of lines.slice(0, LISTED)) terminal.out(line)
  if (lines.length > LISTED) terminal.out(`and ${lines.length - LISTED} more`)
  if (lines.length === 0)
    terminal.say(already.length > 0 ? 'nothing to do: the files already have these changes' : 'nothing to do')
}
