/**
 * Finds where a language comes from: this machine, Debian, npm or the Go module proxy. Errors name each
 * source that was tried.
 */

import type { BaseSource, Machine, ResolvedBase } from '../../../bases/base-kind.ts'
import { baseKind } from '../../../bases/bases.ts'
import { DEBIAN } from '../../../bases/debian-packages.ts'
import { AgentPodError, isAgentPodError } from '../../../core/error.ts'
import { SUITES, type Suite } from '../../../core/recipe.ts'
import { LANGUAGE_NAMES, type Language } from '../../detect/finding.ts'
import { printable } from '../../toml/problem.ts'
import type { ListedVersion, RegistryVersions } from './registry-versions.ts'
import { byVersion, isLatest, mayMatch, satisfies, toRange, toVersion } from './version.ts'

export type ToolchainSource =
  | BaseSource
  | {
      readonly kind: 'npm'
      readonly version: string
      readonly package: string
      readonly sha512: string | undefined
      /** For Node: the matching npm, because the package has none. */
      readonly npm?: ListedVersion | undefined
    }
  | { readonly kind: 'go'; readonly version: string; readonly arch: string }

/** Languages that npm distributes, with the package for an architecture. */
const FROM_NPM: Partial<Record<Language, (arch: string) => string>> = {
  node: (arch) => `node-linux-${arch}`,
  bun: (arch) => `@oven/bun-linux-${arch === 'arm64' ? 'aarch64' : arch}`,
  deno: (arch) => `@deno/linux-${arch}-glibc`,
}

/** Languages that need no toolchain. */
const NONE: readonly Language[] = ['static', 'shell', 'other']

export function needsToolchain(language: Language): boolean {
  return !NONE.includes(language)
}

/** The default versions, as of the date in `debian-packages.ts`. */
export const DEFAULT_WISH: Partial<Record<Language, string>> = { node: '>=20', bun: '*', deno: '*', go: '*' }
/** The version line to install if any would do. */
const PREFERRED: Partial<Record<Language, string>> = { node: '24' }

export interface Tried {
  readonly where: string
  readonly had: readonly string[]
}

export interface ToolchainSearch {
  readonly source: ToolchainSource | undefined
  readonly tried: readonly Tried[]
  /** Why a registry did not answer. */
  readonly silence?: AgentPodError | undefined
}

/**
 * Looks on one base for a version that meets all wishes. A registry that does not answer counts as having
 * none; its error is returned.
 */
export async function findToolchain(
  language: Language,
  wishes: readonly string[],
  resolvedBase: ResolvedBase,
  { machine, lists }: { readonly machine: Machine; readonly lists: RegistryVersions },
): Promise<ToolchainSearch> {
  const tried: Tried[] = []
  const kind = baseKind(resolvedBase.base)
  const there = kind.tools.languages(resolvedBase, machine, language)
  const source = there.find((one) => wishes.every((wish) => canServe(language, one, wish)))
  if (source) return { source, tried }
  tried.push({ where: kind.texts.label(resolvedBase), had: distinctVersions(there) })
  try {
    return { source: await fromRegistry({ language, wishes, tried }, machine, lists), tried }
  } catch (error) {
    if (!isAgentPodError(error)) throw error
    return { source: undefined, tried, silence: error }
  }
}

/** The version of packages is only partly known, and that of an image's tools not at all. */
export function canServe(language: Language, { kind, version }: ToolchainSource, wish: string): boolean {
  if (kind === 'own') return true
  return kind === 'packaged' ? mayMatch(language, version, wish) : satisfies(language, version, wish)
}

/** Newest first, without duplicates from several directories. */
function distinctVersions(there: readonly { readonly version: string }[]): string[] {
  return [...new Set(there.map(({ version }) => version))].toSorted(byVersion)
}

/** What a registry is searched for. The search adds to `tried` when nothing fits. */
interface RegistrySearch {
  readonly language: Language
  readonly wishes: readonly string[]
  readonly tried: Tried[]
}

async function fromRegistry(
  search: RegistrySearch,
  machine: Machine,
  lists: RegistryVersions,
): Promise<ToolchainSource | undefined> {
  const { language } = search
  const name = FROM_NPM[language]?.(machine.arch)
  if (name) {
    const found = newest(search, await lists.npm(name), `npm's ${name}`)
    if (!found) return undefined
    const { version, sha512 } = found
    const npm = language === 'node' ? await npmFor(version, lists) : undefined
    return { kind: 'npm', version, package: name, sha512, npm }
  }
  if (language !== 'go') return undefined
  const arch = machine.arch === 'x64' ? 'amd64' : machine.arch
  const found = newest(search, await lists.go(arch), 'the Go module proxy')
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

async function npmFor(node: string, lists: RegistryVersions): Promise<ListedVersion | undefined> {
  const line = NPM_LINES.find(([range]) => satisfies('node', node, range))?.[1] ?? '*'
  const fitting = plain(await lists.npm('npm')).filter(({ version }) => satisfies('tool', version, line))
  return fitting.toSorted((a, b) => byVersion(a.version, b.version))[0]
}

/** SECURITY: a version becomes part of a path and of a command, so other text is dropped. */
function plain(versions: readonly ListedVersion[]): ListedVersion[] {
  return versions.filter(
    ({ version, sha512 }) =>
      /^\d{1,9}(?:\.\d{1,9}){1,2}$/.test(version) && (sha512 === undefined || /^[0-9a-f]{128}$/.test(sha512)),
  )
}

function newest(
  { language, wishes, tried }: RegistrySearch,
  versions: readonly ListedVersion[],
  where: string,
): ListedVersion | undefined {
  const fitting = plain(versions)
    .filter(({ version }) => wishes.every((wish) => satisfies(language, version, wish)))
    .toSorted((a, b) => byVersion(a.version, b.version))
  const line = wishes.some(isLatest) ? undefined : (PREFERRED[language] ?? lineOfModule(language, wishes))
  const found = fitting.find(({ version }) => line && satisfies(language, version, line)) ?? fitting[0]
  if (!found) tried.push({ where, had: lines(plain(versions)) })
  return found
}

/** A Go module names the version line it is developed with, although newer ones would do. */
function lineOfModule(language: Language, wishes: readonly string[]): string | undefined {
  if (language !== 'go') return undefined
  return wishes.map((wish) => /^>=\s*(\d+\.\d+)/.exec(wish)?.[1]).find((line) => line !== undefined)
}

/** One version of each line, newest first. */
function lines(versions: readonly ListedVersion[]): string[] {
  const all = versions.map(({ version }) => version).toSorted(byVersion)
  return [...new Set(all.map(lineOf))].slice(0, 8)
}

/** `22` for 22.1.0, and `1.24` for 1.24.3, because the first number of Go never changes. */
function lineOf(version: string): string {
  const [major = version, minor] = version.split('.')
  return Number(major) < 2 && minor !== undefined ? `${major}.${minor}` : major
}

/** Debian releases that have it, for the hint. */
function otherSuites(language: Language, wish: string): Suite[] {
  return SUITES.filter((suite) =>
    (DEBIAN[suite][language] ?? []).some(({ version }) => mayMatch(language, version, wish)),
  )
}

export function notAvailable(
  language: Language,
  wish: { readonly value: string; readonly where: string; readonly isLocked: boolean },
  tried: readonly Tried[],
): AgentPodError {
  const said = tried.map(({ where, had }) => `${where} has ${had.length > 0 ? had.join(', ') : 'none'}`)
  const all = tried.flatMap(({ had }) => had)
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'language.unavailable',
    message: `${printable(wish.where, 200)}: ${LANGUAGE_NAMES[language]} ${printable(wish.value)} is not available: ${said.join('; ')}`,
    hint: wish.isLocked
      ? 'update the lock with `agentpod config lock`'
      : hintFor(language, wish.value, nearest(language, wish.value, all)),
    details: { language, wish: wish.value, tried: tried.map(({ where, had }) => ({ where, had })) },
  })
}

function hintFor(language: Language, wish: string, near: string | undefined): string {
  const [suite] = otherSuites(language, wish)
  if (suite) return `Debian ${suite} has it; set in agentpod.toml: [environment] suite = "${suite}"`
  return near
    ? `choose an available version in agentpod.toml: [environment.languages] ${language} = "${near}"`
    : `install ${LANGUAGE_NAMES[language]} on this machine, or turn it off: [environment.languages] ${language} = false`
}

/** The version closest to a wish; of two, the newer one. */
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
