/** One order of precedence for every language: what was said, what is taken, and why the rest lost. */

import type { Language } from '../detect/finding.ts'
import { type Candidate, type Choice, RANKS, type Rejected } from '../evidence.ts'
import { byVersion, satisfies, toRange, toVersion } from './version.ts'

/** Undefined where nobody said anything that is understood. */
export function decideVersion(language: Language, candidates: readonly Candidate[]): Choice | undefined {
  const understood = candidates.filter(({ value }) => toRange(language, value) !== undefined)
  const sorted = understood.toSorted((a, b) => RANKS.indexOf(a.rank) - RANKS.indexOf(b.rank))
  const best = sorted[0]
  if (!best) return undefined
  const chosen = preferred(language, sorted)
  const beat = [
    ...sorted.filter((one) => one !== chosen).map((one) => rejected(language, chosen, one)),
    ...candidates
      .filter((one) => !understood.includes(one))
      .map(({ value, evidence }) => ({ value, evidence, why: 'it names no version that can be had' })),
  ]
  const contradicts = beat.find(({ why }) => why.startsWith('it contradicts'))
  return {
    value: chosen.value,
    rank: chosen.rank,
    evidence: chosen.evidence,
    beat,
    note: contradicts && conflict(chosen, contradicts),
  }
}

/** Of several of one rank (a matrix, classifiers) the newest that the ranges allow; a range alone gives way to a version that it allows. */
function preferred(language: Language, sorted: readonly Candidate[]): Candidate {
  const best = sorted[0] as Candidate
  const ranges = sorted.filter(({ value }) => isRange(value))
  const isAllowed = ({ value }: Candidate): boolean =>
    ranges.every((range) => satisfies(language, value, range.value))
  const peers = sorted.filter(({ rank }) => rank === best.rank)
  const versions = peers
    .filter(({ value }) => !isRange(value))
    .toSorted((a, b) => byVersion(a.value, b.value))
  // What stands nearest goes first where a file of versions names one; a list of many is no order.
  if (best.rank !== 'ci' && best.rank !== 'range' && best.rank !== 'default') return best
  return versions.find(isAllowed) ?? versions[0] ?? best
}

function isRange(value: string): boolean {
  return !/^(?:v|go|python-|ruby-)?\d+(?:\.\d+){0,2}$/i.test(value.trim())
}

function rejected(language: Language, chosen: Candidate, lost: Candidate): Rejected {
  const { value, evidence } = lost
  const version = toVersion(chosen.value)
  const isMet =
    version !== undefined && (satisfies(language, chosen.value, value) || sameLine(chosen.value, value))
  if (isMet || isRange(chosen.value)) return { value, evidence, why: `it agrees with ${chosen.value}` }
  if (lost.rank === chosen.rank)
    return { value, evidence, why: 'another one of the same kind is newer or nearer' }
  const why = isRange(value) ? 'it contradicts' : 'it differs from'
  return { value, evidence, why: `${why} ${chosen.value}, and a ${chosen.rank} goes before a ${lost.rank}` }
}

function sameLine(a: string, b: string): boolean {
  const [short, long] = a.length < b.length ? [a, b] : [b, a]
  return long === short || long.startsWith(`${short}.`)
}

function conflict(chosen: Candidate, lost: Rejected): string {
  return `${chosen.evidence.file || 'what you asked for'} wants ${chosen.value} and ${lost.evidence.file} wants ${lost.value}; make them agree, or say which in [environment.languages]`
}
