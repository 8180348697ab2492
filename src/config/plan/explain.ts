/** Every choice of a plan: what it is, where it came from, what it beat. */

import { VERBS } from '../detect/finding.ts'
import type { Evidence, Rank, Rejected } from '../evidence.ts'
import { sourceText } from './lock.ts'
import type { Plan } from './plan.ts'

export interface Explained {
  /** `languages.node`, `services.postgres`, `commands.test`. */
  readonly key: string
  readonly value: string
  readonly rank: Rank
  readonly from: Evidence
  readonly beat: readonly Rejected[]
  readonly note?: string | undefined
}

export function explain(plan: Plan): Explained[] {
  const one = (
    key: string,
    value: string,
    rank: Rank,
    from: Evidence,
    beat: readonly Rejected[] = [],
  ): Explained => ({
    key,
    value,
    rank,
    from,
    beat,
  })
  const base = plan.ground.base === 'debian' ? `${plan.base.value} (${plan.ground.suite})` : plan.base.value
  return [
    one('base', base, plan.base.rank, plan.base.evidence, plan.base.beat),
    ...plan.languages.map(({ language, wish, source }) => ({
      ...one(
        `languages.${language}`,
        `${source.version} from ${shortSource(sourceText(source))}`,
        wish.rank,
        wish.evidence,
        wish.beat,
      ),
      note: wish.note,
    })),
    ...plan.findings.flatMap(({ manager, directory, lockfile, language }) =>
      manager
        ? [
            one(
              `managers.${at(directory, language)}`,
              lockfile ? `${manager.name}, locked by ${lockfile}` : `${manager.name}, without a lockfile`,
              'manifest',
              manager.evidence,
              manager.beat.map(({ name, evidence, why }) => ({ value: name, evidence, why })),
            ),
          ]
        : [],
    ),
    ...plan.tools.map(({ name, version, from, evidence }) =>
      one(
        `tools.${name}`,
        `${version ?? 'the newest'} from ${from === 'host' ? 'this machine' : from}`,
        'manifest',
        evidence,
      ),
    ),
    ...plan.packages.map(({ name, evidence, isThere }) =>
      one(`packages.${name}`, isThere ? 'this machine has it' : 'from Debian', 'manifest', evidence),
    ),
    ...plan.services.map(({ name, has, port, choice, note }) => ({
      ...one(
        `services.${name}`,
        has ? `${has} on port ${port}` : 'a command of the project',
        choice.rank,
        choice.evidence,
        choice.beat,
      ),
      note,
    })),
    ...plan.setups.map(({ name, manager, evidence, inputs }) =>
      one(name, `by ${manager} (again when one of ${inputs.length} files changes)`, 'manifest', evidence),
    ),
    ...VERBS.filter((verb) => verb !== 'setup').flatMap((verb) =>
      plan.commands[verb].map(({ directory, run, rank, evidence }) =>
        one(`commands.${at(directory, verb)}`, lastLine(run), rank, evidence),
      ),
    ),
    ...plan.ports.map(({ port, label, isPublic, evidence }) =>
      one(
        `ports.${port}`,
        [label, isPublic ? 'public' : 'private'].filter(Boolean).join(', '),
        'manifest',
        evidence,
      ),
    ),
    ...plan.variables.map(({ name, value, evidence }) =>
      one(`variables.${name}`, value, 'manifest', evidence),
    ),
    ...plan.presets.map(({ name, evidence }) =>
      one(`network.${name}`, 'may be reached by builds', 'manifest', evidence),
    ),
  ]
}

function at(directory: string, name: string): string {
  return directory === '' ? name : `${name} in ${directory}`
}

function shortSource(text: string): string {
  return text.split(' sha512:')[0] ?? text
}

function lastLine(run: string): string {
  const lines = run.split('\n').filter((line) => line.trim() !== '' && !line.startsWith('set '))
  return lines.length > 1 ? `${lines[0]} ...` : (lines[0] ?? '')
}

/** `package.json:12 "node": ">=20"`, or the words alone. */
export function place({ file, line, said }: Evidence): string {
  const words = said.replaceAll(/[^ -~]/g, '?').slice(0, 120)
  return file === '' ? words : `${file}${line ? `:${line}` : ''} ${words}`
}
