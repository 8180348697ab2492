/** Which base everything is put on: this machine's own tools where they will do, since that costs nothing; else the release of Debian that has most. */
import { kindOf } from '../../bases/bases.ts'
import { isSuite } from '../../bases/debian-packages.ts'
import { image, imageOf } from '../../bases/image.ts'
import type { Ground } from '../../bases/kind.ts'
import { invalid } from '../../core/error.ts'
import { SUITES, type Suite } from '../../core/recipe.ts'
import type { FoundTool } from '../detect/finding.ts'
import type { Choice, Evidence } from '../evidence.ts'
import { printable } from '../problem.ts'
import { sourceOn, type WantedLanguage } from './languages.ts'
import { baseOf } from './named-bases.ts'
import type { PackagePlan } from './plan.ts'
import type { ResolveInput } from './resolve-input.ts'
import { canRun, type WantedService } from './service-plan.ts'

export interface Wanted {
  readonly languages: readonly WantedLanguage[]
  readonly services: readonly WantedService[]
  readonly packages: readonly Pick<PackagePlan, 'name'>[]
  readonly tools: readonly FoundTool[]
}

export interface ChosenBase {
  readonly ground: Ground
  readonly choice: Choice
}

const NOBODY: Evidence = { file: '', said: 'nobody says' }
const MOST_NAMED = 4

export async function chooseBase(input: ResolveInput, wanted: Wanted): Promise<ChosenBase> {
  const asked = askedFor(input)
  if (asked) {
    const base = baseOf(asked.base)
    const { choice, suite, image: ref } = asked
    if (ref !== undefined) return { choice, ground: { base, image: ref } }
    if (kindOf(base).releases.length === 0) return { choice, ground: { base } }
    return { choice, ground: { base, suite: suite ?? (await bestSuite(input, wanted)).suite } }
  }
  if (input.machine.hasHost === false) return onDebian(await bestSuite(input, wanted), NO_HOST)
  const lacking = await lackingOn({ base: 'host' }, input, wanted)
  const best = weight(lacking) > 0 ? await bestSuite(input, wanted) : undefined
  // Of what Debian has as little of, Debian may still install some: packages nobody knows the machine to have.
  const isNeeded = lacking.needed.length === 0 && (best?.lacking.needed.length ?? 0) > 0
  const isNoWorse =
    best && lacking.needed.length + lacking.missing.length === 0 && weight(best.lacking) >= weight(lacking)
  if (!best || isNeeded || isNoWorse) {
    const said = isNeeded
      ? `only this machine has ${listed(best?.lacking.needed ?? [])}`
      : best
        ? 'no release of Debian has more of what is needed'
        : 'this machine has everything that is needed'
    return {
      ground: { base: 'host' },
      choice: { value: 'host', rank: 'default', evidence: { file: '', said }, beat: [] },
    }
  }
  const why = `this machine lacks ${listed([...lacking.needed, ...lacking.missing, ...lacking.other])}`
  return onDebian(best, why)
}

const NO_HOST = "the provider does not run on this machine's tools"

function onDebian({ suite }: { readonly suite: Suite }, why: string): ChosenBase {
  return {
    ground: { base: 'debian', suite },
    choice: {
      value: 'debian',
      rank: 'default',
      evidence: { file: '', said: why },
      beat: [{ value: 'host', evidence: NOBODY, why }],
    },
  }
}

function listed(names: readonly string[]): string {
  return `${names.slice(0, MOST_NAMED).join(', ')}${names.length > MOST_NAMED ? ', ...' : ''}`
}

interface Asked {
  readonly base: string
  readonly suite?: Suite | undefined
  readonly image?: string | undefined
  readonly choice: Choice
}

/** An option, then the file, then the lock. A lock of another base than the one asked for says nothing about releases either. */
function askedFor(input: ResolveInput): Asked | undefined {
  const { base: option, file, locked } = input
  const { base: written, suite } = file?.data.environment ?? {}
  const named = namedImage(input)
  if (named) return named
  const base = option ?? written ?? (suite === undefined ? undefined : 'debian')
  if (base === undefined)
    return (
      locked && {
        base: locked.name,
        suite: parseSuite(locked.suite),
        choice: said('lock', locked.name, LOCKED),
      }
    )
  const release = parseSuite(suite ?? (locked?.name === base ? locked.suite : undefined))
  if (option !== undefined)
    return { base, suite: release, choice: said('flag', base, { file: '', said: `--base ${base}` }) }
  const key = written === undefined ? 'suite' : 'base'
  return { base, suite: release, choice: said('agentpod.toml', base, inFile(file, key, written ?? suite)) }
}

/** An image that is named is the base; a base that needs one takes the file's. */
function namedImage({ base: option, image: given, file }: ResolveInput): Asked | undefined {
  const { base: written, image: own } = file?.data.environment ?? {}
  const base = option ?? (given === undefined ? written : undefined)
  const takesImage = base === undefined ? (given ?? own) !== undefined : kindOf(baseOf(base)).takesImage
  if (!takesImage) return undefined
  const ref = given ?? own
  imageOf({ image: ref })
  const choice =
    given === undefined
      ? said('agentpod.toml', image.name, inFile(file, 'image', ref))
      : said('flag', image.name, { file: '', said: `--image ${given}` })
  return { base: image.name, image: ref, choice }
}

function said(rank: Choice['rank'], value: string, evidence: Evidence): Choice {
  return { value, rank, evidence, beat: [] }
}

function inFile(file: ResolveInput['file'], key: string, value: string | undefined): Evidence {
  return {
    file: file?.name ?? '',
    line: file?.lineOf(['environment', key]),
    said: `${key} = "${value}"`,
  }
}

const LOCKED: Evidence = { file: 'agentpod.lock', said: 'it was made on this base' }

function parseSuite(text: string | undefined): Suite | undefined {
  if (text === undefined || isSuite(text)) return text
  throw invalid(
    'suite.unknown',
    `there is no release ${printable(text)} of Debian that we know`,
    `known are ${SUITES.join(', ')}`,
  )
}

/** The machine's own release, unless another one has more. */
async function bestSuite(
  input: ResolveInput,
  wanted: Wanted,
): Promise<{ readonly suite: Suite; readonly lacking: Lacking }> {
  const own = input.machine.suite
  const order: Suite[] = [...(isSuite(own) ? [own] : []), ...SUITES.filter((suite) => suite !== own)]
  let best: { suite: Suite; lacking: Lacking } | undefined
  for (const suite of order) {
    const lacking = await lackingOn({ base: 'debian', suite }, input, wanted)
    if (!best || weight(lacking) < weight(best.lacking)) best = { suite, lacking }
    if (weight(lacking) === 0) break
  }
  return best ?? { suite: SUITES[0], lacking: { needed: [], missing: [], other: [] } }
}

/** What a base cannot give, in words. */
interface Lacking {
  /** Languages, and services that agentpod.toml asks for: without them there is no environment. */
  readonly needed: readonly string[]
  readonly missing: readonly string[]
  /** Of these it has another one, which will do where nothing else is available. */
  readonly other: readonly string[]
}

/** A version that a project's files pin goes before a service or a package that was found in them. */
function weight({ needed, missing, other }: Lacking): number {
  return needed.length * 1_000_000 + missing.length * 1000 + other.length
}

async function lackingOn(ground: Ground, input: ResolveInput, wanted: Wanted): Promise<Lacking> {
  const { machine } = input
  const needed: string[] = []
  const missing: string[] = []
  const other: string[] = []
  for (const one of wanted.languages) {
    const { source, isMeant, isNear, forbidding } = await sourceOn(input, one, ground)
    const name = `${one.language} ${printable(one.wish.value)}`
    if (!source) needed.push(name)
    else if (!isMeant && !isNear && one.wish.rank === 'manifest') other.push(name)
    for (const { value } of forbidding) other.push(`${one.language} ${printable(value)}`)
  }
  for (const service of wanted.services)
    if (!canRun(ground, machine, service))
      (service.choice.rank === 'agentpod.toml' ? needed : missing).push(service.name)
  const lacking = kindOf(ground.base).lacking(ground, machine, {
    packages: wanted.packages.map(({ name }) => name),
    tools: wanted.tools.map(({ name }) => name).filter((name) => !INSTALLED.includes(name)),
  })
  missing.push(...lacking.packages.map((name) => `the package ${printable(name)}`), ...lacking.tools)
  return { needed, missing, other }
}

/** Tools that npm, pip or a step of ours brings to any base. */
const INSTALLED: readonly string[] = ['node', 'npm', 'pnpm', 'yarn', 'uv', 'poetry', 'pdm', 'pipenv']
