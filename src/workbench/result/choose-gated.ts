/** Which of the changed files that would run later on this machine become part of a result. */
import type { GatedFile } from '../../sync/git/gate/gate.ts'
import type { Person } from '../ask.ts'

/** `ask` leaves them out when nobody can answer. A list takes those paths and everything below them. */
export type GateChoice = 'ask' | boolean | readonly string[]

/** SECURITY: GT-14. Such files are left out unless the user takes them. Gives the files that are left out. */
export async function chooseGated(
  person: Person,
  by: string,
  files: readonly GatedFile[],
  choice: GateChoice,
): Promise<readonly GatedFile[]> {
  if (files.length === 0 || choice === true) return []
  if (choice === false) return files
  const taken = choice === 'ask' ? ((await person.question('gated', { by, files })) ?? []) : choice
  return files.filter(({ path }) => !taken.some((one) => isBelow(path, one)))
}

/** Whether a path is the other, or below it. */
function isBelow(path: string, other: string): boolean {
  return path === other || path.startsWith(`${other.replace(/\/+$/, '')}/`)
}
