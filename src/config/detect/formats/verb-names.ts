/** Names of scripts and tasks that mean one of our verbs. */
import type { Verb } from '../finding.ts'

const NAMES: ReadonlyMap<string, Verb> = new Map([
  ['setup', 'setup'],
  ['install', 'setup'],
  ['bootstrap', 'setup'],
  ['dev', 'dev'],
  ['develop', 'dev'],
  ['serve', 'dev'],
  ['test', 'test'],
  ['tests', 'test'],
  ['check', 'test'],
  ['lint', 'lint'],
  ['build', 'build'],
  ['start', 'start'],
  ['run', 'start'],
])

/** For each verb the first of these names that the file has. */
export function scriptsByVerb(names: readonly string[]): ReadonlyMap<Verb, string> {
  const found = new Map<Verb, string>()
  for (const [name, verb] of NAMES) if (names.includes(name) && !found.has(verb)) found.set(verb, name)
  return found
}
