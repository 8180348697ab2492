/** Plans the languages of a project: requested versions, and where each toolchain comes from. */

import type { ResolvedBase } from '../../../bases/base-kind.ts'
import { allBaseKinds } from '../../../bases/bases.ts'
import { AgentPodError, invalid } from '../../../core/error.ts'
import { type Finding, LANGUAGE_NAMES, type Language } from '../../detect/finding.ts'
import type { Candidate, Choice, Evidence } from '../../evidence.ts'
import type { ProjectData } from '../../project/data.ts'
import type { ProjectLanguage } from '../../project/environment-table.ts'
import { printable } from '../../toml/problem.ts'
import type { LanguagePlan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import { chooseVersion, otherPatches, searchOrder, unreadableCandidates } from './choose-version.ts'
import {
  DEFAULT_WISH,
  findToolchain,
  needsToolchain,
  notAvailable,
  type ToolchainSearch,
  type ToolchainSource,
  type Tried,
} from './find-toolchain.ts'
import { isRange, mayMatch, overlaps, toRange } from './version.ts'

export interface WantedLanguage {
  readonly language: Language
  readonly wish: Choice
  /** The request before agentpod.lock is applied. */
  readonly asked: string
  /** What to look for, best first; each entry lists wishes that must be met together. */
  readonly attempts: readonly (readonly string[])[]
  /** Ranges from other files that are compatible with the wish; the chosen version is compared with them. */
  readonly ranges: readonly Candidate[]
  /** Only a file of another platform names it: without it, the rest of the environment is still useful. */
  readonly isOptional: boolean
}

/** The wish for a language in agentpod.toml: a version, or `false` for none. */
export function languageWish(data: ProjectData | undefined, language: Language): string | false | undefined {
  return data?.environment.languages[language as ProjectLanguage]
}

/** The build chooses the version of Kotlin; the environment needs a JDK. */
export function toolchainOf(language: Language): Language {
  return language === 'kotlin' ? 'java' : language
}

/** `named` are languages that a named base or a tool needs, beyond those that were found or configured. */
export function wantedLanguages(
  input: PlanInput,
  findings: readonly Finding[],
  named: readonly Language[],
): WantedLanguage[] {
  const data = input.file?.data
  const asked = Object.entries(data?.environment.languages ?? {}).flatMap(([name, wish]) =>
    wish === false ? [] : [name as Language],
  )
  const all = [...asked, ...findings.map(({ language }) => language), ...named].map(toolchainOf)
  return [...new Set(all)].filter(needsToolchain).flatMap((language) => {
    if (languageWish(data, language) === false) return []
    const candidates = candidatesOf(input, findings, language)
    const wish = chooseVersion(language, candidates) ?? defaultWish(language, candidates)
    const ranges = candidates.filter(
      ({ value }) => value !== wish.value && isRange(value) && overlaps(language, wish.value, value),
    )
    const attempts = searchOrder(language, wish, candidates)
    const isOptional =
      ![...asked, ...findings.map((one) => one.language)].map(toolchainOf).includes(language) &&
      input.detected.formats.some(({ versions }) =>
        versions.some((one) => toolchainOf(one.language) === language),
      )
    return [pinned({ language, wish, asked: wish.value, attempts, ranges, isOptional }, input)]
  })
}

function candidatesOf(input: PlanInput, findings: readonly Finding[], language: Language): Candidate[] {
  return [
    ...writtenDown(input, language),
    ...findings
      .filter((one) => toolchainOf(one.language) === language)
      .flatMap(({ versions }) => (language === 'go' ? versions.map(atLeast) : versions)),
    ...formatVersions(input, findings, language),
  ]
}

/** Detectors read version files for the languages that they find; other files speak for all languages. */
function formatVersions(
  { detected }: PlanInput,
  findings: readonly Finding[],
  language: Language,
): Candidate[] {
  const isFound = findings.some((one) => toolchainOf(one.language) === language)
  return detected.formats.flatMap(({ versions, rank }) =>
    isFound && rank === 'version file'
      ? []
      : versions.filter((one) => toolchainOf(one.language) === language && one.value !== '*'),
  )
}

/** A Go module states its minimum version, and Go promises that newer ones work. */
function atLeast(candidate: Candidate): Candidate {
  const isModule = /(?:^|\/)go\.(?:mod|work)$/.test(candidate.evidence.file)
  return isModule && !isRange(candidate.value) ? { ...candidate, value: `>=${candidate.value}` } : candidate
}

/**
 * Throws `invalid_argument` if agentpod.toml has a value that is not a version: choosing another would be
 * worse.
 */
function writtenDown({ file }: PlanInput, language: Language): Candidate[] {
  const value = languageWish(file?.data, language)
  if (!file || typeof value !== 'string') return []
  const evidence: Evidence = {
    file: file.name,
    line: file.lineOf(['environment', 'languages', language]),
    said: `${language} = "${value}"`,
  }
  if (toRange(language, value) !== undefined) return [{ value, rank: 'agentpod.toml', evidence }]
  throw invalid(
    'language.version',
    `${placeOf(evidence)}: ${language} = "${printable(value)}" is not a version or range`,
    'use a version such as "22", ">=3.11" or "latest"',
  )
}

function defaultWish(language: Language, candidates: readonly Candidate[]): Choice {
  const beat = unreadableCandidates(language, candidates)
  const value = DEFAULT_WISH[language] ?? '*'
  return {
    value,
    rank: 'default',
    evidence: { file: '', said: 'no file names a version' },
    beat,
    note:
      beat[0] &&
      `${printable(beat[0].evidence.file, 200)} wants ${LANGUAGE_NAMES[language]} ${printable(beat[0].value)}, which is not available; another version is used`,
  }
}

/** Uses the version in agentpod.lock as long as it fits the request. */
function pinned(wanted: WantedLanguage, { pinned: pins }: PlanInput): WantedLanguage {
  const { language, wish, attempts } = wanted
  const version = pins && Object.hasOwn(pins, language) ? pins[language] : undefined
  if (version === undefined) return wanted
  const isMeant = attempts.some((wishes) => wishes.every((one) => mayMatch(language, version, one)))
  if (!isMeant) {
    const note = `agentpod.lock pins ${LANGUAGE_NAMES[language]} ${printable(version)}, and ${placeOf(wish.evidence)} wants ${printable(wish.value)}; update the lock with \`agentpod config lock\``
    return { ...wanted, wish: { ...wish, note } }
  }
  const behind = { value: wish.value, evidence: wish.evidence, why: `agentpod.lock pins ${version}` }
  return {
    language,
    asked: wish.value,
    ranges: wanted.ranges,
    isOptional: wanted.isOptional,
    attempts: [[`==${version}`]],
    wish: {
      value: version,
      rank: 'lock',
      evidence: { file: 'agentpod.lock', said: `${language} ${version}` },
      beat: [behind, ...wish.beat],
      note: wish.note,
    },
  }
}

export interface FoundToolchain extends ToolchainSearch {
  /** Whether it is the requested version, not a substitute. */
  readonly isMeant: boolean
  /** Whether it is another patch of the requested version. */
  readonly isNear: boolean
  /** Ranges that exclude the version found. */
  readonly forbidding: readonly Candidate[]
}

/** The result of the first attempt for which the base has a version. */
export async function toolchainOn(
  input: Pick<PlanInput, 'machine' | 'lists'>,
  { language, wish, attempts, ranges }: WantedLanguage,
  resolvedBase: ResolvedBase,
): Promise<FoundToolchain> {
  const near = otherPatches(language, wish)
  let first: ToolchainSearch | undefined
  for (const wishes of attempts) {
    const sought = await findToolchain(language, wishes, resolvedBase, input)
    const { source } = sought
    if (source)
      return {
        ...sought,
        isMeant: source.kind === 'own' || wish.rank === 'lock' || wishes.includes(wish.value),
        isNear: wishes.some((one) => near.includes(one)),
        forbidding: ranges.filter(
          ({ value }) => source.kind !== 'own' && !mayMatch(language, source.version, value),
        ),
      }
    first ??= sought
  }
  const { tried = [], silence } = first ?? {}
  return { source: undefined, tried, silence, isMeant: false, isNear: false, forbidding: [] }
}

/**
 * Throws `failed_precondition` with the sources tried and the nearest version, or `unavailable` if a registry
 * did not answer.
 */
export async function planLanguage(
  input: PlanInput,
  wanted: WantedLanguage,
  resolvedBase: ResolvedBase,
): Promise<LanguagePlan> {
  const { language, wish, asked } = wanted
  const { source, tried, silence, isMeant, forbidding } = await toolchainOn(input, wanted, resolvedBase)
  if (source) {
    const notes = [
      wish.note,
      isMeant ? undefined : instead(wanted, source),
      ...forbidding.map((range) => forbidden(language, source, range)),
    ].filter((one) => one !== undefined)
    return { language, asked, source, wish: { ...wish, note: notes.join('; ') || undefined } }
  }
  if (silence) throw unasked(wanted, silence)
  throw notAvailable(
    language,
    { value: wish.value, where: placeOf(wish.evidence), isLocked: wish.rank === 'lock' },
    [...tried, ...(await triedElsewhere(input, wanted, resolvedBase))],
  )
}

/** Versions on other bases, for the error message. */
async function triedElsewhere(
  input: PlanInput,
  wanted: WantedLanguage,
  resolvedBase: ResolvedBase,
): Promise<readonly Tried[]> {
  const all = allBaseKinds().flatMap((kind) => kind.variants())
  const tried: Tried[] = []
  for (const one of all)
    if (JSON.stringify(one) !== JSON.stringify(resolvedBase))
      tried.push(...(await toolchainOn(input, wanted, one)).tried.slice(0, 1))
  return tried.filter(({ had }) => had.length > 0)
}

function instead({ language, wish }: WantedLanguage, { version }: ToolchainSource): string {
  return `${LANGUAGE_NAMES[language]} ${printable(wish.value)} is not available; ${version} is used`
}

function forbidden(language: Language, { version }: ToolchainSource, { value, evidence }: Candidate): string {
  return `${placeOf(evidence)} needs ${LANGUAGE_NAMES[language]} ${printable(value)}, but ${version} is used because no matching version is available`
}

function unasked({ language, wish }: WantedLanguage, silence: AgentPodError): AgentPodError {
  return new AgentPodError({
    code: silence.code,
    reason: silence.reason,
    message: `${placeOf(wish.evidence)}: ${LANGUAGE_NAMES[language]} ${printable(wish.value)} is not part of this base, and ${silence.message}`,
    hint: silence.hint,
    cause: silence,
  })
}

function placeOf({ file, line }: Evidence): string {
  if (file === '') return 'asked for'
  return line === undefined ? printable(file, 200) : `${printable(file, 200)}:${line}`
}
