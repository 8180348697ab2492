/**
 * Chooses a version by one order of precedence for every language, with the reason why each other candidate
 * lost.
 */

import type { Language } from '../../detect/finding.ts'
import { type Candidate, type Choice, RANK_WORDS, RANKS, type Rank, type Rejected } from '../../evidence.ts'
import { printable } from '../../toml/problem.ts'
import { byVersion, isRange, overlaps, toRange, toVersion } from './version.ts'

/** Undefined if no candidate is a version or range. */
export function chooseVersion(language: Language, candidates: readonly Candidate[]): Choice | undefined {
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
    beat: [
      ...others.map((one) => rejected(language, chosen, one)),
      ...unreadableCandidates(language, candidates),
    ],
    note: contradicting && conflict(chosen, contradicting),
  }
}

/** Candidates that are not versions or ranges: `nightly`, `pypy3.9`. */
export function unreadableCandidates(language: Language, candidates: readonly Candidate[]): Rejected[] {
  return candidates
    .filter(({ value }) => toRange(language, value) === undefined)
    .map(({ value, evidence }) => ({ value, evidence, why: 'it does not name a known version' }))
}

/**
 * What to look for, best first; each entry lists wishes that must be met together. A named version should
 * also fit the ranges of the other files. Versions from CI, classifiers or defaults give way to whatever the
 * ranges allow.
 */
export function searchOrder(
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
  const agreeing = ranges.filter((range) => overlaps(language, value, range))
  const isLoose = rank === 'ci' || rank === 'default' || (rank === 'range' && !isRange(value))
  const within = (wish: string): string[][] => [...(agreeing.length > 0 ? [[wish, ...agreeing]] : []), [wish]]
  return [
    ...within(value),
    ...otherPatches(language, choice).flatMap(within),
    ...(isLoose ? [ranges.length > 0 ? ranges : ['*']] : []),
    ...(isBuiltFor(language, rank) ? newer(value).flatMap(within) : []),
  ]
}

/** A patch version that is named here must match exactly. */
const EXACT: readonly Rank[] = ['flag', 'agentpod.toml', 'lock']
/** Languages whose minor versions are compatible. */
const BY_MAJOR: readonly Language[] = ['node', 'deno', 'bun']

/**
 * Acceptable versions if a project's file names a patch that is not available: `3.12.1` for `3.12.3`. Version
 * managers record the patch that someone had; few projects need exactly that one.
 */
export function otherPatches(language: Language, { value, rank }: Pick<Choice, 'value' | 'rank'>): string[] {
  if (EXACT.includes(rank) || isRange(value)) return []
  const exact = /\d+\.\d+\.\d+/.test(value) ? toVersion(value) : undefined
  if (!exact) return []
  const { major, minor } = exact
  return [`${major}.${minor}`, ...(BY_MAJOR.includes(language) ? [`${major}`] : [])]
}

/** A manifest states the Java version of the output. A newer compiler can produce it too. */
function isBuiltFor(language: Language, rank: Rank): boolean {
  return (language === 'java' || language === 'kotlin') && rank === 'manifest'
}

function newer(value: string): string[] {
  const range = toRange('java', value)
  const major = range === undefined ? undefined : toVersion(range)?.major
  return major === undefined ? [] : [`>=${major}`]
}

/** Sources that list supported versions, not the version in use. */
const LISTS: readonly Rank[] = ['ci', 'range', 'default']

/**
 * Among candidates of one rank that form a list (a matrix, classifiers), the newest that the ranges allow.
 * Among Go modules the highest, because each states its minimum.
 */
function preferred(language: Language, sorted: readonly Candidate[]): Candidate {
  const best = sorted[0] as Candidate
  const peers = sorted
    .filter(({ rank }) => rank === best.rank)
    .toSorted((a, b) => byVersion(a.value, b.value))
  if (language === 'go' && best.rank === 'manifest') return peers[0] ?? best
  const versions = peers.filter(({ value }) => !isRange(value))
  // The nearest version file goes first; lists such as a CI matrix have no order.
  if (!LISTS.includes(best.rank)) return best
  const ranges = sorted.filter(({ value }) => isRange(value))
  const isAllowed = ({ value }: Candidate): boolean =>
    ranges.every((range) => overlaps(language, value, range.value))
  return versions.find(isAllowed) ?? versions[0] ?? best
}

function rejected(language: Language, chosen: Candidate, lost: Candidate): Rejected {
  const { value, evidence } = lost
  return { value, evidence, why: reason(language, chosen, lost) }
}

function reason(language: Language, chosen: Candidate, lost: Candidate): string {
  const value = printable(chosen.value)
  if (overlaps(language, chosen.value, lost.value)) return `it agrees with ${value}`
  const how = isRange(lost.value) ? 'it contradicts' : 'it differs from'
  if (lost.rank === chosen.rank && !isRange(lost.value) && LISTS.includes(lost.rank))
    return byVersion(chosen.value, lost.value) < 0 ? `${value} is newer` : 'a range does not allow it'
  if (lost.rank === chosen.rank) return `${how} ${value}, whose file is nearer`
  return `${how} ${value}, and ${RANK_WORDS[chosen.rank]} goes before ${RANK_WORDS[lost.rank]}`
}

/** A range that excludes the chosen version, or two sources of one rank with different versions. */
function isConflict(language: Language, chosen: Candidate, lost: Candidate): boolean {
  if (overlaps(language, chosen.value, lost.value)) return false
  return isRange(lost.value) || (lost.rank === chosen.rank && !LISTS.includes(lost.rank))
}

function conflict(chosen: Candidate, lost: Candidate): string {
  const place = ({ evidence: { file } }: Candidate): string => printable(file, 200) || 'what you asked for'
  return `${place(chosen)} wants ${printable(chosen.value)} and ${place(lost)} wants ${printable(lost.value)}; make them agree, or choose one under [environment.languages]`
}
