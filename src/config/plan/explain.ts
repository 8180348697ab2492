/** Explains every choice of a plan: its value, where it came from, and what it beat. */

import { baseKind } from '../../bases/bases.ts'
import { ownLines } from '../../util/shell/shell-script.ts'
import { VERBS } from '../detect/finding.ts'
import type { Evidence, Rank, Rejected } from '../evidence.ts'
import { rankOfFile } from '../source-rank.ts'
import { devcontainerRows } from './devcontainer/devcontainer-rows.ts'
import type { ExplainedChoice } from './explained-choice.ts'
import type { ToolchainSource } from './languages/find-toolchain.ts'
import { sourceText } from './lock.ts'
import type { Plan, ToolPlan } from './plan.ts'

/** Every choice of a plan, in the order in which `agentpod config explain` lists them. */
export function explainPlan(plan: Plan): ExplainedChoice[] {
  return [
    baseRow(plan),
    ...devcontainerRows(plan),
    ...plan.languages.map(({ language, wish, source }) => ({
      ...row(`languages.${language}`, languageText(source), wish),
      note: wish.note,
    })),
    ...plan.refused.map(({ key, wish, error }) => ({
      ...row(key, `${wish.value} is not available`, wish),
      note: [error.message, error.hint].filter(Boolean).join('; '),
    })),
    ...toolRows(plan),
    ...plan.addons.map(({ name, port, choice }) => row(`addons.${name}`, `on port ${port}`, choice)),
    ...plan.services.map(({ name, has, port, choice, note }) => ({
      ...row(`services.${name}`, has ? `${has} on port ${port}` : 'a command of the project', choice),
      note,
    })),
    ...commandRows(plan),
    ...plan.ports.map(({ port, label, isPublic, evidence, beat }) => ({
      ...rowFrom(
        `ports.${port}`,
        [label, isPublic ? 'public' : 'private'].filter(Boolean).join(', '),
        evidence,
      ),
      beat,
    })),
    ...plan.unset.map(({ name, evidence }) => rowFrom(`variables.${name}`, 'unset', evidence)),
    ...plan.variables.map(({ name, value, evidence, beat }) => ({
      ...rowFrom(`variables.${name}`, value, evidence),
      beat,
    })),
    ...plan.presets.map(({ name, evidence }) =>
      rowFrom(`network.${name}`, 'may be reached by builds', evidence),
    ),
  ]
}

function baseRow({ base, resolvedBase }: Plan): ExplainedChoice {
  const detail = baseKind(resolvedBase.base).texts.detail(resolvedBase)
  return row('base', detail === undefined ? base.value : `${base.value} (${detail})`, base)
}

/** Package managers, tools and system packages. */
function toolRows(plan: Plan): ExplainedChoice[] {
  const kind = baseKind(plan.resolvedBase.base)
  return [
    ...plan.findings.flatMap(({ manager, directory, lockfile, language, label = language }) =>
      manager
        ? [
            row(
              `managers.${inDirectory(label.toLowerCase(), directory)}`,
              lockfile ? `${manager.name}, locked by ${lockfile}` : `${manager.name}, without a lockfile`,
              {
                rank: 'manifest',
                evidence: manager.evidence,
                beat: manager.beat.map(({ name, evidence, why }) => ({ value: name, evidence, why })),
              },
            ),
          ]
        : [],
    ),
    ...plan.tools.map(({ name, version, from, evidence }) =>
      rowFrom(`tools.${name}`, toolText(plan, { version, from }), evidence),
    ),
    ...plan.packages.map(({ name, evidence, isThere, isOptional, isAsked, beat }) => ({
      ...rowFrom(`packages.${name}`, kind.texts.aboutPackage({ isThere, isOptional, isAsked }), evidence),
      beat,
    })),
    ...plan.extraFrom.map(({ manager, name, evidence }) =>
      rowFrom(`packages.${manager}.${name}`, `from ${manager}`, evidence),
    ),
  ]
}

/** How dependencies are installed, then the commands of each verb. */
function commandRows({ setups, starts, commands }: Plan): ExplainedChoice[] {
  return [
    ...setups.map(({ name, run, script = run, manager, evidence, inputs, beat = [] }) => ({
      ...rowFrom(name, `by ${manager} (again when one of ${inputs.length} files changes)`, evidence),
      beat,
      run: summary(script),
    })),
    ...starts.map(({ run, script = run, rank, evidence, beat }) =>
      row('at-start', summary(script), { rank, evidence, beat }),
    ),
    ...VERBS.filter((verb) => verb !== 'setup').flatMap((verb) =>
      commands[verb].map(({ directory, run, rank, evidence, beat }) =>
        row(`commands.${inDirectory(verb, directory)}`, summary(run), { rank, evidence, beat }),
      ),
    ),
  ]
}

interface Reason {
  readonly rank: Rank
  readonly evidence: Evidence
  readonly beat?: readonly Rejected[]
}

function row(key: string, value: string, { rank, evidence, beat = [] }: Reason): ExplainedChoice {
  return { key, value, rank, from: evidence, beat }
}

/** A choice whose rank follows from the file that made it. */
function rowFrom(key: string, value: string, evidence: Evidence): ExplainedChoice {
  return row(key, value, { rank: rankOfFile(evidence.file), evidence })
}

function languageText(source: ToolchainSource): string {
  const from = shortSource(sourceText(source))
  return source.kind === 'own' ? `${from}'s own` : `${source.version} from ${from}`
}

/** The versions of an image's tools are not known. */
function toolText({ resolvedBase }: Plan, { version, from }: Pick<ToolPlan, 'version' | 'from'>): string {
  if (from !== 'base') return `${version ?? 'the newest'} from ${from === 'packages' ? 'debian' : from}`
  const where = baseKind(resolvedBase.base).texts.label(resolvedBase)
  return baseKind(resolvedBase.base).tools.hasKnownTools
    ? `${version ?? 'the newest'} from ${where}`
    : `${where}'s own`
}

function inDirectory(name: string, directory: string): string {
  return directory === '' ? name : `${name} in ${directory}`
}

function shortSource(text: string): string {
  return text.split(' sha512:')[0] ?? text
}

/** Preparatory lines of a script, not worth showing. */
const LEADING = /^\s*(?:[()]|\w+=|printf )/

function summary(run: string): string {
  const lines = ownLines(run).filter((line) => !LEADING.test(line))
  return lines.length > 1 ? `${lines[0]} ...` : (lines[0] ?? '')
}
