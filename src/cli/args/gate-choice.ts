/** The options about files that would run later on this machine. */
import { invalid } from '../../core/error.ts'
import type { GateChoice } from '../../workbench/result/choose-gated.ts'
import type { Parsed } from './parse.ts'

export function gateChoice(parsed: Parsed): GateChoice {
  const [isWith, isWithout] = [parsed.has('with-executables'), parsed.has('without-executables')]
  const taken = parsed.values('take')
  if (Number(isWith) + Number(isWithout) + Number(taken.length > 0) > 1)
    throw invalid(
      'option.executables',
      '--with-executables, --without-executables and --take cannot be combined',
      'use one of them: --take names single files',
    )
  if (taken.length > 0) return taken.map((path) => path.replace(/^\.\//, ''))
  return isWith ? true : isWithout ? false : 'ask'
}
