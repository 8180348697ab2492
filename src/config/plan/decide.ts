/** One order of precedence for every language: what was said, what is taken, and why the rest lost. */

import type { Language } from '../detect/finding.ts'
import { type Candidate, type Choice, RANKS, type Rank, type Rejected } from '../evidence.ts'
import { printable } from '../problem.ts'
import { agree, byVersion, isRange, toRange, toVersion } from './version.ts'

/** Undefined where nobody said anything that is understood. */
export function decideVersion(language: Language, candidates: readonly Candidate[]): Choice | undefined {
  const understood = candidates.filter(({ value }) => toRange(language, value) !== undefined)
  const sorted = understood.toSorted((a, b) => RANKS.indexOf(a.rank) - RANKS.indexOf(b.rank))
  if (!sorted[0]) return undefined
  const chosen = preferred(language, sorted)
  const others = sorted.filter((one) => one !== chosen)
  const contradicting = others.find((one) => isConflict(language, chosen, one))
  return {
    value: chosen.value,
    rank: chosen.rank,
    evidence: chosen.evidence,
    beat: [...others.map((one) => rejected(language, chosen, one)), ...unreadable(language, candidates)],
    note: contradicting && conflict(chosen, contradicting),
  }
}

/** What was said and is not understood: `nightly`, `pypy3.9`. */
export function unreadable(language: Language, candidates: readonly Candidate[]): Rejected[] {
  return candidates
    .filter(({ value }) => toRange(language, value) === undefined)
    .map(({ value, evidence }) => ({ value, evidence, why: 'it names no version that is available' }))
}

/**
 * What to look for, best first; each is a list of wishes that have to be met at once. What a place names is to fit the ranges of the others
 * where it can. What CI tests with, what a classifier lists and what nobody asked for gives way to whatever the ranges allow.
 */
export function attemptsOf(
  language: Language,
  choice: Choice,
  candidates: readonly Candidate[],
): readonly (readonly string[])[] {
  const { value, rank } = choice
  const ranges = [
    ...new Set(
      candidates.flatMap((one) =>
        one.value !== value && isRange(one.value) && toRange(language, one.value) !== undefined
          ? [one.value]
          : [],
      ),
    ),
  ]
  const agreeing = ranges.filter((range) => agree(language, value, range))
  const isLoose = rank === 'ci' || rank === 'default' || (rank === 'range' && !isRange(value))
  const within = (wish: string): string[][] => [...(agreeing.length > 0 ? [[wish, ...agreeing]] : []), [wish]]
  return [
    ...within(value),
    ...nearOf(language, choice).flatMap(within),
    ...(isLoose ? [ranges.length > 0 ? ranges : ['*']] : []),
    ...(isBuiltFor(language, rank) ? newer(value).flatMap(within) : []),
  ]
}

/** Who names a patch here means it. */
const EXACT: readonly Rank[] = ['flag', 'agentpod.toml', 'lock']
/** Languages whose minor versions only add. */
const BY_MAJOR: readonly Language[] = ['node', 'deno', 'bun']

/**
 * What does as well where a project's file names a patch that is not there: `3.12.1` for `3.12.3`. Version managers write down the patch that
 * somebody had; few projects need that one.
 */
export function nearOf(language: Language, { value, rank }: Pick<Choice, 'value' | 'rank'>): string[] {
  if (EXACT.includes(rank) || isRange(value)) return []
  const exact = /\d+\.\d+\.\d+/.test(value) ? toVersion(value) : undefined
  if (!exact) return []
  const { major, minor } = exact
  return [`${major}.${minor}`, ...(BY_MAJOR.includes(language) ? [`${major}`] : [])]
}

/** A manifest says which Java the result is for. A newer compiler makes that too. */
function isBuiltFor(language: Language, rank: Rank): boolean {
  return (language === 'java' || language === 'kotlin') && rank === 'manifest'
}

function newer(value: string): string[] {
  const range = toRange('java', value)
  const major = range === undefined ? undefined : toVersion(range)?.major
  return major === undefined ? [] : [`>=${major}`]
}

/** Places that list what is supported, and not what is used. */
const LISTS: readonly Rank[] = ['ci', 'range', 'default']

/**
 * Of several of one rank that are a list (a matrix, classifiers) the newest that the ranges allow. Of modules in Go the one that needs most:
 * what each says is the least that it needs.
 */
function preferred(language: Language, sorted: readonly Candidate[]): Candidate {
  const best = sorted[0] as Candidate
  const peers = sorted
    .filter(({ rank }) => rank === best.rank)
    .toSorted((a, b) => byVersion(a.value, b.value))
  if (language === 'go' && best.rank === 'manifest') return peers[0] ?? best
  const versions = peers.filter(({ value }) => !isRange(value))
  // What stands nearest goes first where a file of versions names one; a list of many is no order.
  if (!LISTS.includes(best.rank)) return best
  const ranges = sorted.filter(({ value }) => isRange(value))
  const isAllowed = ({ value }: Candidate): boolean =>
    ranges.every((range) => agree(language, value, range.value))
  return versions.find(isAllowed) ?? versions[0] ?? best
}

function rejected(language: Language, chosen: Candidate, lost: Candidate): Rejected {
  const { value, evidence } = lost
  return { value, evidence, why: reason(language, chosen, lost) }
}

function reason(language: Language, chosen: Candidate, lost: Candidate): string {
  const value = printable(chosen.value)
  if (agree(language, chosen.value, lost.value)) return `it agrees with ${value}`
  const how = isRange(lost.value) ? 'it contradicts' : 'it differs from'
  if (lost.rank === chosen.rank && !isRange(lost.value) && LISTS.includes(lost.rank))
    return byVersion(chosen.value, lost.value) < 0 ? `${value} is newer` : 'a range does not allow it'
  if (lost.rank === chosen.rank) return `${how} ${value}, which stands nearer`
  return `${how} ${value}, and ${RANK_WORDS[chosen.rank]} goes before ${RANK_WORDS[lost.rank]}`
}

/** A range that forbids what is taken, or two places of one rank that name different versions. */
function isConflict(language: Language, chosen: Candidate, lost: Candidate): boolean {
  if (agree(language, chosen.value, lost.value)) return false
  return isRange(lost.value) || (lost.rank === chosen.rank && !LISTS.includes(lost.rank))
}

const RANK_WORDS: Readonly<Record<Rank, string>> = {
  flag: 'an option',
  'agentpod.toml': 'agentpod.toml',
  lock: 'agentpod.lock',
  'agent file': 'a file for agents',
  'version file': 'a version file',
  manifest: 'a manifest',
  ci: 'CI',
  range: 'a range',
  default: 'a default',
}

function conflict(chosen: Candidate, lost: Candidate): string {
  const place = ({ evidence: { file } }: Candidate): string => printable(file, 200) || 'what you asked for'
  return `${place(chosen)} wants ${printable(chosen.value)} and ${place(lost)} wants ${printable(lost.value)}; make them agree, or say which in [environment.languages]`
}
