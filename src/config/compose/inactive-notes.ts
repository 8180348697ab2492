import { shellWord } from '../../util/shell/shell-word.ts'
import { placeText } from '../evidence.ts'
import { printable } from '../toml/problem.ts'
import type { ComposeProject } from './model.ts'

/** Which services do not run because of their profiles, and what starts them. */
export function inactiveNotes({ inactive }: Pick<ComposeProject, 'inactive'>): string[] {
  return inactive.map((one) => {
    const [profile = ''] = one.profiles
    return `${placeText(one)}: ${printable(one.name)} does not run, because no profile of it is active; --compose-profile ${shellWord(printable(profile))} starts it`
  })
}
