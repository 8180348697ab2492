/** Which languages a project is to have, which versions were asked for, and where each comes from. */
import { allKinds } from '../../bases/bases.ts'
import type { Ground } from '../../bases/kind.ts'
import { AgentPodError, invalid } from '../../core/error.ts'
import type { Finding, Language } from '../detect/finding.ts'
import type { Candidate, Choice, Evidence } from '../evidence.ts'
import { printable } from '../problem.ts'
import type { ProjectData } from '../project/data.ts'
import type { ProjectLanguage } from '../project/environment-table.ts'
import { attemptsOf, decideVersion, nearOf, unreadable } from './decide.ts'
import type { LanguagePlan } from './plan.ts'
import type { ResolveInput } from './resolve-input.ts'
import {
  cannotBeHad,
  DEFAULT_WISH,
  needsToolchain,
  type Sought,
  type Source,
  seek,
  type Tried,
} from './sources.ts'
import { agree, isRange, mayBe, toRange } from './version.ts'

export interface WantedLanguage {
  readonly language: Language
  readonly wish: Choice
  /** What was asked for without agentpod.lock. */
  readonly asked: string
  /** What to look for, best first; each a list of wishes that have to be met at once. */
  readonly attempts: readonly (readonly string[])[]
  /** Ranges that others ask for and that agree with the wish: what is taken is compared with them. */
  readonly ranges: readonly Candidate[]
}

/** What agentpod.toml says of a language: a version, or that there is to be none. */
export function languageWish(data: ProjectData | undefined, language: Language): string | false | undefined {
  return data?.environment.languages[language as ProjectLanguage]
}

/** Kotlin's own version is the build's to choose; what has to be there is a Java. */
export function toolchainOf(language: Language): Language {
  return language === 'kotlin' ? 'java' : language
}

/** `named` are those that nobody found and nobody wrote down, and that are wanted all the same. */
export function wantedLanguages(
  input: ResolveInput,
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
    const wish = decideVersion(language, candidates) ?? defaultWish(language, candidates)
    const ranges = candidates.filter(
      ({ value }) => value !== wish.value && isRange(value) && agree(language, wish.value, value),
    )
    const attempts = attemptsOf(language, wish, candidates)
    return [pinned({ language, wish, asked: wish.value, attempts, ranges }, input)]
  })
}

function candidatesOf(input: ResolveInput, findings: readonly Finding[], language: Language): Candidate[] {
  return [
    ...writtenDown(input, language),
    ...findings
      .filter((one) => toolchainOf(one.language) === language)
      .flatMap(({ versions }) => (language === 'go' ? versions.map(atLeast) : versions)),
  ]
}

/** What a module of Go says is the least that it needs, and Go promises that newer ones do as well. */
function atLeast(candidate: Candidate): Candidate {
  const isModule = /(?:^|\/)go\.(?:mod|work)$/.test(candidate.evidence.file)
  return isModule && !isRange(candidate.value) ? { ...candidate, value: `>=${candidate.value}` } : candidate
}

/** `invalid_argument` where agentpod.toml asks for what nobody understands: to take another one for it would be worse. */
function writtenDown({ file }: ResolveInput, language: Language): Candidate[] {
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
    `${placeOf(evidence)}: ${language} = "${printable(value)}" is no version that we understand`,
    'write one like "22", ">=3.11" or "latest"',
  )
}

function defaultWish(language: Language, candidates: readonly Candidate[]): Choice {
  const beat = unreadable(language, candidates)
  const value = DEFAULT_WISH[language] ?? '*'
  return {
    value,
    rank: 'default',
    evidence: { file: '', said: 'nobody says which version' },
    beat,
    note:
      beat[0] &&
      `${printable(beat[0].evidence.file, 200)} wants ${language} ${printable(beat[0].value)}, which is not available here; another one is taken`,
  }
}

/** What agentpod.lock pins is taken as long as it is what was asked for: the wish says which will do, the lock which it came to. */
function pinned(wanted: WantedLanguage, { pinned: pins }: ResolveInput): WantedLanguage {
  const { language, wish, attempts } = wanted
  const version = pins && Object.hasOwn(pins, language) ? pins[language] : undefined
  if (version === undefined) return wanted
  const isMeant = attempts.some((wishes) => wishes.every((one) => mayBe(language, version, one)))
  if (!isMeant) {
    const note = `agentpod.lock pins ${language} ${printable(version)}, and ${placeOf(wish.evidence)} wants ${printable(wish.value)}; make it anew with \`agentpod config lock\``
    return { ...wanted, wish: { ...wish, note } }
  }
  const behind = { value: wish.value, evidence: wish.evidence, why: `agentpod.lock has ${version} for it` }
  return {
    language,
    asked: wish.value,
    ranges: wanted.ranges,
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

export interface FoundSource extends Sought {
  /** Whether it is what was asked for, and not what was taken for it. */
  readonly isMeant: boolean
  /** Whether it is another patch of what was asked for. */
  readonly isNear: boolean
  /** Ranges that forbid what was found. */
  readonly forbidding: readonly Candidate[]
}

/** The first of the attempts that a base has something for. */
export async function sourceOn(
  input: Pick<ResolveInput, 'machine' | 'lists'>,
  { language, wish, attempts, ranges }: WantedLanguage,
  ground: Ground,
): Promise<FoundSource> {
  const near = nearOf(language, wish)
  let first: Sought | undefined
  for (const wishes of attempts) {
    const sought = await seek(language, wishes, ground, input.machine, input.lists)
    const { source } = sought
    if (source)
      return {
        ...sought,
        isMeant: source.kind === 'own' || wish.rank === 'lock' || wishes.includes(wish.value),
        isNear: wishes.some((one) => near.includes(one)),
        forbidding: ranges.filter(
          ({ value }) => source.kind !== 'own' && !mayBe(language, source.version, value),
        ),
      }
    first ??= sought
  }
  const { tried = [], silence } = first ?? {}
  return { source: undefined, tried, silence, isMeant: false, isNear: false, forbidding: [] }
}

/** `failed_precondition` names what was tried and what is near; `unavailable` a registry that would have to be asked. */
export async function planLanguage(
  input: ResolveInput,
  wanted: WantedLanguage,
  ground: Ground,
): Promise<LanguagePlan> {
  const { language, wish, asked } = wanted
  const { source, tried, silence, isMeant, forbidding } = await sourceOn(input, wanted, ground)
  if (source) {
    const notes = [
      wish.note,
      isMeant ? undefined : instead(wanted, source),
      ...forbidding.map((range) => forbidden(language, source, range)),
    ].filter((one) => one !== undefined)
    return { language, asked, source, wish: { ...wish, note: notes.join('; ') || undefined } }
  }
  if (silence) throw unasked(wanted, silence)
  throw cannotBeHad(
    language,
    { value: wish.value, where: placeOf(wish.evidence), isLocked: wish.rank === 'lock' },
    [...tried, ...(await triedElsewhere(input, wanted, ground))],
  )
}

/** What other bases have is near, and worth saying. */
async function triedElsewhere(
  input: ResolveInput,
  wanted: WantedLanguage,
  ground: Ground,
): Promise<readonly Tried[]> {
  const all = allKinds().flatMap((kind) => kind.grounds())
  const tried: Tried[] = []
  for (const one of all)
    if (JSON.stringify(one) !== JSON.stringify(ground))
      tried.push(...(await sourceOn(input, wanted, one)).tried.slice(0, 1))
  return tried.filter(({ had }) => had.length > 0)
}

function instead({ language, wish }: WantedLanguage, { version }: Source): string {
  return `${language} ${printable(wish.value)} is not available here; ${version} is taken`
}

function forbidden(language: Language, { version }: Source, { value, evidence }: Candidate): string {
  return `${placeOf(evidence)} needs ${language} ${printable(value)}, and ${version} is taken: nothing that fits is available`
}

function unasked({ language, wish }: WantedLanguage, silence: AgentPodError): AgentPodError {
  return new AgentPodError({
    code: silence.code,
    reason: silence.reason,
    message: `${placeOf(wish.evidence)}: ${language} ${printable(wish.value)} is not on this base, and ${silence.message}`,
    hint: silence.hint,
    cause: silence,
  })
}

function placeOf({ file, line }: Evidence): string {
  if (file === '') return 'asked for'
  return line === undefined ? printable(file, 200) : `${printable(file, 200)}:${line}`
}
