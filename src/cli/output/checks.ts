/** Prints what a provider or this machine was checked for. */
import type { CheckView } from '../../api/schema/server.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import type { Terminal } from './terminal.ts'

export function printChecks(terminal: Terminal, checks: readonly CheckView[]): void {
  for (const one of checks) {
    const mark = one.ok ? terminal.green('ok') : one.required ? terminal.red('missing') : 'limited'
    terminal.out(`${mark.padEnd(8)} ${one.name}: ${showHidden(one.detail)}`)
    if (!one.ok && one.hint) terminal.out(`         ${terminal.dim(showHidden(one.hint))}`)
  }
}
