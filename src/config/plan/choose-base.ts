/**
 * Chooses the base of a plan: this machine's tools if they are sufficient, because that costs nothing; else
 * the Debian release that has the most.
 */

import type { BaseDockerfile, ResolvedBase } from '../../bases/base-kind.ts'
import { baseKind } from '../../bases/bases.ts'
import { isSuite } from '../../bases/debian-packages.ts'
import { image, imageOf } from '../../bases/image.ts'
import { invalid } from '../../core/error.ts'
import { SUITES, type Suite } from '../../core/recipe.ts'
import { type FoundTool, LANGUAGE_NAMES } from '../detect/finding.ts'
import { type Choice, type Evidence, goesBefore, RANK_WORDS } from '../evidence.ts'
import { baseText } from '../project/found-base.ts'
import { printable } from '../toml/problem.ts'
import { toolchainOn, type WantedLanguage } from './languages/language-plan.ts'
import { baseOf } from './named-bases.ts'
import type { PackagePlan } from './plan.ts'
import type { PlanInput } from './plan-input.ts'
import { byRank, whyBeaten } from './resolve/by-rank.ts'
import { canRun, type WantedService } from './services/service-plan.ts'

export interface BaseNeeds {
  readonly languages: readonly WantedLanguage[]
  readonly services: readonly WantedService[]
  readonly packages: readonly Pick<PackagePlan, 'name'>[]
  readonly tools: readonly FoundTool[]
}

export interface ChosenBase {
  readonly resolvedBase: ResolvedBase
  readonly choice: Choice
}

const NOBODY: Evidence = { file: '', said: 'nothing chooses one' }
const MOST_NAMED = 4

export async function chooseBase(input: PlanInput, wanted: BaseNeeds): Promise<ChosenBase> {
  const { resolvedBase, choice } = await strongestBase(input, wanted)
  return { resolvedBase, choice: { ...choice, beat: [...choice.beat, ...beatenBases(input, choice)] } }
}

/** Images and Dockerfiles of other files that are not used. */
function beatenBases({ detected, foundBase }: PlanInput, choice: Choice): Choice['beat'] {
  const others = detected.bases.filter(({ evidence }) => evidence !== choice.evidence)
  return byRank(others).map((lost) => ({
    value: baseText(lost),
    evidence: lost.evidence,
    why:
      foundBase === undefined && goesBefore(lost.rank, choice.rank)
        ? 'it is not approved; `agentpod policy approve` approves it'
        : whyBeaten(choice, lost, false),
  }))
}

async function strongestBase(input: PlanInput, wanted: BaseNeeds): Promise<ChosenBase> {
  const asked = overDevcontainer(askedFor(input), input)
  if (asked) {
    const base = baseOf(asked.base)
    const { choice, suite, image: ref, dockerfile } = asked
    if (ref !== undefined)
      return { choice, resolvedBase: { base, image: ref, ...(dockerfile && { dockerfile }) } }
    if (baseKind(base).releases.length === 0) return { choice, resolvedBase: { base } }
    return { choice, resolvedBase: { base, suite: suite ?? (await bestSuite(input, wanted)).suite } }
  }
  if (input.machine.hasHost === false) return onDebian(await bestSuite(input, wanted), NO_HOST)
  const lacking = await lackingOn({ base: 'host' }, input, wanted)
  const best = weight(lacking) > 0 ? await bestSuite(input, wanted) : undefined
  // Even if Debian has no more than the machine, it may install packages that the machine is not known to
  // have.
  const isNeeded = lacking.needed.length === 0 && (best?.lacking.needed.length ?? 0) > 0
  const isNoWorse =
    best && lacking.needed.length + lacking.missing.length === 0 && weight(best.lacking) >= weight(lacking)
  if (!best || isNeeded || isNoWorse) {
    const said = isNeeded
      ? `only this machine has ${listed(best?.lacking.needed ?? [])}`
      : best
        ? 'no Debian release has more of what the project needs'
        : 'this machine has everything the project needs'
    return {
      resolvedBase: { base: 'host' },
      choice: { value: 'host', rank: 'default', evidence: { file: '', said }, beat: [] },
    }
  }
  const why = `missing on this machine: ${listed([...lacking.needed, ...lacking.missing, ...lacking.other])}`
  return onDebian(best, why)
}

const NO_HOST = "the provider cannot use this machine's tools as a base"

function onDebian({ suite }: { readonly suite: Suite }, why: string): ChosenBase {
  return {
    resolvedBase: { base: 'debian', suite },
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

/** The base of devcontainer.json, unless a stronger source names one; then it is among what that one beat. */
function overDevcontainer(asked: Asked | undefined, input: PlanInput): Asked | undefined {
  const { devcontainer, dockerfileImage } = input
  if (!devcontainer) return asked
  const { image: ref = dockerfileImage, dockerfile, evidence } = devcontainer.base
  if (!asked)
    return {
      base: image.name,
      image: ref,
      ...(dockerfile && { dockerfile }),
      choice: said('devcontainer', image.name, evidence),
    }
  const beaten = {
    value: devcontainer.base.image ?? dockerfile?.file ?? '',
    evidence,
    why: `${RANK_WORDS[asked.choice.rank]} goes before ${RANK_WORDS.devcontainer}`,
  }
  return { ...asked, choice: { ...asked.choice, beat: [...asked.choice.beat, beaten] } }
}

interface Asked {
  readonly base: string
  readonly suite?: Suite | undefined
  readonly image?: string | undefined
  readonly dockerfile?: BaseDockerfile | undefined
  readonly choice: Choice
}

/**
 * From the option, else the file, else the lock, else an approved image or Dockerfile of another file. A lock
 * of another base does not decide the release either.
 */
function askedFor(input: PlanInput): Asked | undefined {
  const { base: option, file, locked } = input
  const { base: written, suite } = file?.data.environment ?? {}
  const named = namedImage(input)
  if (named) return named
  const base = option ?? written ?? (suite === undefined ? undefined : 'debian')
  if (base === undefined)
    return locked
      ? {
          base: locked.name,
          suite: parseSuite(locked.suite),
          choice: said('lock', locked.name, LOCKED),
        }
      : ofFoundBase(input)
  const release = parseSuite(suite ?? (locked?.name === base ? locked.suite : undefined))
  if (option !== undefined)
    return { base, suite: release, choice: said('flag', base, { file: '', said: `--base ${base}` }) }
  const key = written === undefined ? 'suite' : 'base'
  return { base, suite: release, choice: said('agentpod.toml', base, inFile(file, key, written ?? suite)) }
}

/** A named image is the base; a base that needs an image uses the one in the file, or its Dockerfile. */
function namedImage({ base: option, image: given, file, dockerfileImage }: PlanInput): Asked | undefined {
  const { base: written, image: own, dockerfile } = file?.data.environment ?? {}
  const base = option ?? (given === undefined ? written : undefined)
  const named = given ?? own ?? (dockerfile && dockerfileImage)
  const takesImage = base === undefined ? named !== undefined : baseKind(baseOf(base)).takesImage
  if (!takesImage) return undefined
  imageOf({ image: named })
  if (given !== undefined)
    return {
      base: image.name,
      image: given,
      choice: said('flag', image.name, { file: '', said: `--image ${given}` }),
    }
  const key = own === undefined ? 'dockerfile' : 'image'
  return {
    base: image.name,
    image: named,
    ...(own === undefined && dockerfile && { dockerfile }),
    choice: said('agentpod.toml', image.name, inFile(file, key, own ?? dockerfile?.file)),
  }
}

function ofFoundBase({ foundBase, dockerfileImage }: PlanInput): Asked | undefined {
  if (!foundBase) return undefined
  const { image: ref, dockerfile, rank, evidence } = foundBase
  const named = ref ?? dockerfileImage
  imageOf({ image: named })
  return {
    base: image.name,
    image: named,
    ...(dockerfile && { dockerfile }),
    choice: said(rank, image.name, evidence),
  }
}

function said(rank: Choice['rank'], value: string, evidence: Evidence): Choice {
  return { value, rank, evidence, beat: [] }
}

function inFile(file: PlanInput['file'], key: string, value: string | undefined): Evidence {
  return {
    file: file?.name ?? '',
    line: file?.lineOf(['environment', key]),
    said: `${key} = "${value}"`,
  }
}

const LOCKED: Evidence = { file: 'agentpod.lock', said: 'the lock was made on this base' }

function parseSuite(text: string | undefined): Suite | undefined {
  if (text === undefined || isSuite(text)) return text
  throw invalid(
    'suite.unknown',
    `unknown Debian release: ${printable(text)}`,
    `known releases: ${SUITES.join(', ')}`,
  )
}

/** The machine's own release, unless another one has more of what is needed. */
async function bestSuite(
  input: PlanInput,
  wanted: BaseNeeds,
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

/** What a base does not have, as text. */
interface Lacking {
  /** Languages, and services from agentpod.toml: the environment cannot do without them. */
  readonly needed: readonly string[]
  readonly missing: readonly string[]
  /** It has another version of these, which is used if nothing better is available. */
  readonly other: readonly string[]
}

/** A version that the project pins counts more than a service or package that was detected. */
function weight({ needed, missing, other }: Lacking): number {
  return needed.length * 1_000_000 + missing.length * 1000 + other.length
}

async function lackingOn(resolvedBase: ResolvedBase, input: PlanInput, wanted: BaseNeeds): Promise<Lacking> {
  const { machine } = input
  const needed: string[] = []
  const missing: string[] = []
  const other: string[] = []
  for (const one of wanted.languages) {
    const { source, isMeant, isNear, forbidding } = await toolchainOn(input, one, resolvedBase)
    const name = `${LANGUAGE_NAMES[one.language]} ${printable(one.wish.value)}`
    if (!source) (one.isOptional ? missing : needed).push(name)
    else if (!isMeant && !isNear && one.wish.rank === 'manifest') other.push(name)
    for (const { value } of forbidding) other.push(`${LANGUAGE_NAMES[one.language]} ${printable(value)}`)
  }
  for (const service of wanted.services)
    if (!canRun(resolvedBase, machine, service))
      (service.choice.rank === 'agentpod.toml' ? needed : missing).push(service.name)
  const lacking = baseKind(resolvedBase.base).tools.lacking(resolvedBase, machine, {
    packages: wanted.packages.map(({ name }) => name),
    tools: wanted.tools.map(({ name }) => name).filter((name) => !INSTALLED.includes(name)),
  })
  missing.push(...lacking.packages.map((name) => `the package ${printable(name)}`), ...lacking.tools)
  return { needed, missing, other }
}

/** Tools that npm, pip or one of our steps can install on any base. */
const INSTALLED: readonly string[] = ['node', 'npm', 'pnpm', 'yarn', 'uv', 'poetry', 'pdm', 'pipenv']
