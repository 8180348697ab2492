/** Every choice of a plan: what it is, where it came from, what it beat. */

import { kindOf } from '../../bases/bases.ts'
import { ownLines } from '../../util/shell-script.ts'
import { VERBS } from '../detect/finding.ts'
import type { Evidence, Rank, Rejected } from '../evidence.ts'
import { PROJECT_FILE } from '../files.ts'
import { printable } from '../problem.ts'
import { sourceText } from './lock.ts'
import type { Plan, ToolPlan } from './plan.ts'
import type { Source } from './sources.ts'

export interface Explained {
  /** `languages.node`, `services.postgres`, `commands.test`. */
  readonly key: string
  readonly value: string
  readonly rank: Rank
  readonly from: Evidence
  readonly beat: readonly Rejected[]
  readonly note?: string | undefined
  /** The command, where the value is not one. */
  readonly run?: string | undefined
}

/** Of what has no order of precedence: who said it. */
function rankOf({ file }: Evidence): Rank {
  if (file === '') return 'default'
  return file === PROJECT_FILE ? 'agentpod.toml' : 'manifest'
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
  const kind = kindOf(plan.ground.base)
  const detail = kind.detail(plan.ground)
  const base = detail === undefined ? plan.base.value : `${plan.base.value} (${detail})`
  return [
    one('base', base, plan.base.rank, plan.base.evidence, plan.base.beat),
    ...plan.languages.map(({ language, wish, source }) => ({
      ...one(`languages.${language}`, languageText(source), wish.rank, wish.evidence, wish.beat),
      note: wish.note,
    })),
    ...plan.refused.map(({ key, wish, error }) => ({
      ...one(key, `${wish.value} is not available`, wish.rank, wish.evidence, wish.beat),
      note: [error.message, error.hint].filter(Boolean).join('; '),
    })),
    ...plan.findings.flatMap(({ manager, directory, lockfile, language, label = language }) =>
      manager
        ? [
            one(
              `managers.${at(directory, label.toLowerCase())}`,
              lockfile ? `${manager.name}, locked by ${lockfile}` : `${manager.name}, without a lockfile`,
              'manifest',
              manager.evidence,
              manager.beat.map(({ name, evidence, why }) => ({ value: name, evidence, why })),
            ),
          ]
        : [],
    ),
    ...plan.tools.map(({ name, version, from, evidence }) =>
      one(`tools.${name}`, toolText(plan, { version, from }), rankOf(evidence), evidence),
    ),
    ...plan.packages.map(({ name, evidence, isThere, isOptional }) =>
      one(`packages.${name}`, kind.aboutPackage({ isThere, isOptional }), rankOf(evidence), evidence),
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
    ...plan.setups.map(({ name, run, manager, evidence, inputs }) => ({
      ...one(
        name,
        `by ${manager} (again when one of ${inputs.length} files changes)`,
        rankOf(evidence),
        evidence,
      ),
      run: summary(run),
    })),
    ...VERBS.filter((verb) => verb !== 'setup').flatMap((verb) =>
      plan.commands[verb].map(({ directory, run, rank, evidence }) =>
        one(`commands.${at(directory, verb)}`, summary(run), rank, evidence),
      ),
    ),
    ...plan.ports.map(({ port, label, isPublic, evidence }) =>
      one(
        `ports.${port}`,
        [label, isPublic ? 'public' : 'private'].filter(Boolean).join(', '),
        rankOf(evidence),
        evidence,
      ),
    ),
    ...plan.variables.map(({ name, value, evidence }) =>
      one(`variables.${name}`, value, rankOf(evidence), evidence),
    ),
    ...plan.presets.map(({ name, evidence }) =>
      one(`network.${name}`, 'may be reached by builds', rankOf(evidence), evidence),
    ),
  ]
}

function languageText(source: Source): string {
  const from = shortSource(sourceText(source))
  return source.kind === 'own' ? `${from}'s own` : `${source.version} from ${from}`
}

/** An image's tools have no version here: it is not known. */
function toolText({ ground }: Plan, { version, from }: Pick<ToolPlan, 'version' | 'from'>): string {
  if (from !== 'base') return `${version ?? 'the newest'} from ${from === 'packages' ? 'debian' : from}`
  const where = kindOf(ground.base).called(ground)
  return kindOf(ground.base).hasKnownTools ? `${version ?? 'the newest'} from ${where}` : `${where}'s own`
}

function at(directory: string, name: string): string {
  return directory === '' ? name : `${name} in ${directory}`
}

function shortSource(text: string): string {
  return text.split(' sha512:')[0] ?? text
}

/** Lines of a script that only lead to what it does. */
const LEADING = /^\s*(?:[()]|\w+=|printf )/

function summary(run: string): string {
  const lines = ownLines(run).filter((line) => !LEADING.test(line))
  return lines.length > 1 ? `${lines[0]} ...` : (lines[0] ?? '')
}

/**
 * `package.json:12 "node": ">=20"`, or the words alone.
 *
 * SECURITY: CF-02. Both are a project's, and go to terminals and into comments: they are one line whatever a file is called.
 */
export function place({ file, line, said }: Evidence): string {
  const words = printable(said, 120)
  // A file that says something by being there is named once.
  if (line === undefined && (file === said || file.endsWith(`/${said}`))) return printable(file, 200)
  return file === '' ? words : `${printable(file, 200)}${line ? `:${line}` : ''} ${words}`
}
