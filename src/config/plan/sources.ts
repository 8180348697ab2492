/** Where a language comes from: this machine, Debian, npm or Go's module proxy. Errors name each source tried. */

import { kindOf } from '../../bases/bases.ts'
import { DEBIAN } from '../../bases/debian-packages.ts'
import type { BaseSource, Ground, Machine } from '../../bases/kind.ts'
import { AgentPodError, isAgentPodError } from '../../core/error.ts'
import { SUITES, type Suite } from '../../core/recipe.ts'
import type { Language } from '../detect/finding.ts'
import { printable } from '../problem.ts'
import type { Listed, Listings } from './listings.ts'
import { byVersion, isLatest, mayBe, satisfies, toRange, toVersion } from './version.ts'

export type Source =
  | BaseSource
  | {
      readonly kind: 'npm'
      readonly version: string
      readonly package: string
      readonly sha512: string | undefined
      /** Of Node: the npm that goes with it, since that package has none. */
      readonly npm?: Listed | undefined
    }
  | { readonly kind: 'go'; readonly version: string; readonly arch: string }

/** Languages whose programs come from npm, by the package of an architecture. */
const FROM_NPM: Partial<Record<Language, (arch: string) => string>> = {
  node: (arch) => `node-linux-${arch}`,
  bun: (arch) => `@oven/bun-linux-${arch === 'arm64' ? 'aarch64' : arch}`,
  deno: (arch) => `@deno/linux-${arch}-glibc`,
}

/** Languages that need no toolchain of their own. */
const NONE: readonly Language[] = ['static', 'shell', 'other']

export function needsToolchain(language: Language): boolean {
  return !NONE.includes(language)
}

/** What is taken when nobody says anything; as of the date in `debian.ts`. */
export const DEFAULT_WISH: Partial<Record<Language, string>> = { node: '>=20', bun: '*', deno: '*', go: '*' }
/** The line that is installed where any would do. */
const PREFERRED: Partial<Record<Language, string>> = { node: '24' }

export interface Tried {
  readonly where: string
  readonly had: readonly string[]
}

export interface Sought {
  readonly source: Source | undefined
  readonly tried: readonly Tried[]
  /** Why a registry said nothing. */
  readonly silence?: AgentPodError | undefined
}

/** Looks on one base for what meets all of the wishes. A registry that cannot be asked is one that has nothing, and why is told. */
export async function seek(
  language: Language,
  wishes: readonly string[],
  ground: Ground,
  machine: Machine,
  lists: Listings,
): Promise<Sought> {
  const tried: Tried[] = []
  const kind = kindOf(ground.base)
  const there = kind.languages(ground, machine, language)
  const source = there.find((one) => wishes.every((wish) => mayServe(language, one, wish)))
  if (source) return { source, tried }
  tried.push({ where: kind.called(ground), had: distinctVersions(there) })
  try {
    return { source: await fromRegistry(language, wishes, machine, lists, tried), tried }
  } catch (error) {
    if (!isAgentPodError(error)) throw error
    return { source: undefined, tried, silence: error }
  }
}

/** Of packages only a part of the version is known, and of an image's own tools none of it. */
export function mayServe(language: Language, { kind, version }: Source, wish: string): boolean {
  if (kind === 'own') return true
  return kind === 'packaged' ? mayBe(language, version, wish) : satisfies(language, version, wish)
}

/** Newest first; one version may lie in several directories. */
function distinctVersions(there: readonly { readonly version: string }[]): string[] {
  return [...new Set(there.map(({ version }) => version))].toSorted(byVersion)
}

async function fromRegistry(
  language: Language,
  wishes: readonly string[],
  machine: Machine,
  lists: Listings,
  tried: Tried[],
): Promise<Source | undefined> {
  const name = FROM_NPM[language]?.(machine.arch)
  if (name) {
    const found = newest(language, await lists.npm(name), wishes, tried, `npm's ${name}`)
    if (!found) return undefined
    const { version, sha512 } = found
    const npm = language === 'node' ? await npmFor(version, lists) : undefined
    return { kind: 'npm', version, package: name, sha512, npm }
  }
  if (language !== 'go') return undefined
  const arch = machine.arch === 'x64' ? 'amd64' : machine.arch
  const found = newest(language, await lists.go(arch), wishes, tried, 'the Go module proxy')
  return found && { kind: 'go', version: found.version, arch }
}

/** Which line of npm runs on which Node, the newest first. */
const NPM_LINES: readonly (readonly [node: string, npm: string])[] = [
  ['>=22.9', '11'],
  ['>=18.17', '10'],
  ['>=14.17', '9'],
  ['>=12.22', '8'],
  ['*', '6'],
]

async function npmFor(node: string, lists: Listings): Promise<Listed | undefined> {
  const line = NPM_LINES.find(([range]) => satisfies('node', node, range))?.[1] ?? '*'
  const fitting = plain(await lists.npm('npm')).filter(({ version }) => satisfies('tool', version, line))
  return fitting.toSorted((a, b) => byVersion(a.version, b.version))[0]
}

/** SECURITY: a version becomes part of a path and of a command. What does not look like one is not there. */
function plain(versions: readonly Listed[]): Listed[] {
  return versions.filter(
    ({ version, sha512 }) =>
      /^\d{1,9}(?:\.\d{1,9}){1,2}$/.test(version) && (sha512 === undefined || /^[0-9a-f]{128}$/.test(sha512)),
  )
}

function newest(
  language: Language,
  versions: readonly Listed[],
  wishes: readonly string[],
  tried: Tried[],
  where: string,
): Listed | undefined {
  const fitting = plain(versions)
    .filter(({ version }) => wishes.every((wish) => satisfies(language, version, wish)))
    .toSorted((a, b) => byVersion(a.version, b.version))
  const line = wishes.some(isLatest) ? undefined : (PREFERRED[language] ?? lineOfModule(language, wishes))
  const found = fitting.find(({ version }) => line && satisfies(language, version, line)) ?? fitting[0]
  if (!found) tried.push({ where, had: lines(plain(versions)) })
  return found
}

/** A module of Go names the line that it is developed with, though newer ones would do. */
function lineOfModule(language: Language, wishes: readonly string[]): string | undefined {
  if (language !== 'go') return undefined
  return wishes.map((wish) => /^>=\s*(\d+\.\d+)/.exec(wish)?.[1]).find((line) => line !== undefined)
}

/** Of hundreds of versions, one of each line, newest first. */
function lines(versions: readonly Listed[]): string[] {
  const all = versions.map(({ version }) => version).toSorted(byVersion)
  return [...new Set(all.map(lineOf))].slice(0, 8)
}

/** `22` of 22.1.0, and `1.24` of 1.24.3: a first number that never changes says nothing. */
function lineOf(version: string): string {
  const [major = version, minor] = version.split('.')
  return Number(major) < 2 && minor !== undefined ? `${major}.${minor}` : major
}

/** Every release of Debian that has it, for the diagnostic of one that does not. */
function otherSuites(language: Language, wish: string): Suite[] {
  return SUITES.filter((suite) =>
    (DEBIAN[suite][language] ?? []).some(({ version }) => mayBe(language, version, wish)),
  )
}

export function cannotBeHad(
  language: Language,
  wish: { readonly value: string; readonly where: string; readonly isLocked: boolean },
  tried: readonly Tried[],
): AgentPodError {
  const said = tried.map(({ where, had }) => `${where} has ${had.length > 0 ? had.join(', ') : 'none'}`)
  const all = tried.flatMap(({ had }) => had)
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'language.unavailable',
    message: `${printable(wish.where, 200)}: ${language} ${printable(wish.value)} is not available: ${said.join('; ')}`,
    hint: wish.isLocked
      ? 'make the lock anew: `agentpod config lock`'
      : hintFor(language, wish.value, nearest(language, wish.value, all)),
    details: { language, wish: wish.value, tried: tried.map(({ where, had }) => ({ where, had })) },
  })
}

function hintFor(language: Language, wish: string, near: string | undefined): string {
  const [suite] = otherSuites(language, wish)
  if (suite) return `Debian ${suite} has it; write in agentpod.toml: [environment] suite = "${suite}"`
  return near
    ? `write one that can, in agentpod.toml: [environment.languages] ${language} = "${near}"`
    : `install ${language} on this machine, or leave it out: [environment.languages] ${language} = false`
}

/** What comes closest to a wish: the fewest lines away, and of two the newer one. */
function nearest(language: Language, wish: string, had: readonly string[]): string | undefined {
  const meant = toVersion(toRange(language, wish) ?? wish)
  if (!meant) return had.toSorted(byVersion)[0]
  const away = (version: string): number => {
    const one = toVersion(version)
    if (!one) return Number.POSITIVE_INFINITY
    return Math.abs(one.major - meant.major) * 1000 + Math.abs(one.minor - meant.minor)
  }
  return had.toSorted((a, b) => away(a) - away(b) || byVersion(a, b))[0]
}
