/** What the options say about files that run later on this machine. */
import { invalid } from '../../core/error.ts'
import type { Parsed } from './parse.ts'

/** `ask` leaves them out where nobody can be asked; a list takes these paths and what is below them. */
export type GateChoice = 'ask' | boolean | readonly string[]

export function gateChoice(parsed: Parsed): GateChoice {
  const [isWith, isWithout] = [parsed.has('with-executables'), parsed.has('without-executables')]
  const taken = parsed.values('take')
  if (Number(isWith) + Number(isWithout) + Number(taken.length > 0) > 1)
    throw invalid(
      'option.executables',
      '--with-executables, --without-executables and --take do not go together',
      'name single files with --take, or take all of them, or none',
    )
  if (taken.length > 0) return taken.map((path) => path.replace(/^\.\//, ''))
  return isWith ? true : isWithout ? false : 'ask'
}
