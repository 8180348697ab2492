/** Which base everything is put on: this machine's own tools where they will do, since that costs nothing; else the release of Debian that has most. */
import { invalid } from '../../core/error.ts'
import { SUITES, type Suite } from '../../core/recipe.ts'
import type { FoundTool } from '../detect/finding.ts'
import type { Choice, Evidence } from '../evidence.ts'
import { printable } from '../problem.ts'
import { hasTool, isSuite, PACKAGE_TOOLS, TOOL_PACKAGES } from './debian.ts'
import { sourceOn, type WantedLanguage } from './languages.ts'
import type { PackagePlan } from './plan.ts'
import type { ResolveInput } from './resolve-input.ts'
import { canRun, type WantedService } from './service-plan.ts'
import type { Ground, Machine } from './sources.ts'

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
    const { base, suite } = asked
    return {
      choice: asked.choice,
      ground:
        base === 'host'
          ? { base }
          : { base: 'debian', suite: suite ?? (await bestSuite(input, wanted)).suite },
    }
  }
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
  return {
    ground: { base: 'debian', suite: best.suite },
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
  readonly suite: Suite | undefined
  readonly choice: Choice
}

/** An option, then the file, then the lock. A lock of another base than the one asked for says nothing about releases either. */
function askedFor({ base: option, file, locked }: ResolveInput): Asked | undefined {
  const { base: written, suite } = file?.data.environment ?? {}
  const said = (rank: Choice['rank'], value: string, evidence: Evidence): Choice => ({
    value,
    rank,
    evidence,
    beat: [],
  })
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
  const evidence: Evidence = {
    file: file?.name ?? '',
    line: file?.lineOf(['environment', key]),
    said: `${key} = "${written ?? suite}"`,
  }
  return { base, suite: release, choice: said('agentpod.toml', base, evidence) }
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
  if (ground.base === 'host') {
    for (const { name } of wanted.packages)
      if (!hasPackage(machine, name)) missing.push(`the package ${printable(name)}`)
    for (const { name } of wanted.tools) if (isMissing(machine, name)) missing.push(name)
  } else {
    for (const { name } of wanted.tools)
      if (!INSTALLED.includes(name) && !hasTool(ground.suite, name)) missing.push(name)
  }
  return { needed, missing, other }
}

/** Whether the machine has what a package of Debian's would bring. Of most packages nobody knows. */
export function hasPackage({ host }: Machine, name: string): boolean {
  const programs = Object.hasOwn(PACKAGE_TOOLS, name) ? PACKAGE_TOOLS[name] : undefined
  return programs?.every((tool) => host.some((one) => one.name === tool)) ?? false
}

/** Tools that npm, pip or a step of ours brings to any base. */
const INSTALLED: readonly string[] = ['node', 'npm', 'pnpm', 'yarn', 'uv', 'poetry', 'pdm', 'pipenv']

/** Whether only Debian could bring a tool. */
export function isMissing({ host }: Machine, tool: string): boolean {
  return Object.hasOwn(TOOL_PACKAGES, tool) && !host.some(({ name }) => name === tool)
}
