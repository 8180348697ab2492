/** Where a language can really be had: from this machine, from Debian, from npm, from Go's module proxy. What was tried is told. */

import { AgentPodError } from '../../core/error.ts'
import type { Language } from '../detect/finding.ts'
import { DEBIAN, type DebianTool, SUITES, type Suite } from './debian.ts'
import type { Listed, Listings } from './listings.ts'
import { byVersion, satisfies } from './version.ts'

/** What the server said about itself. */
export interface Machine {
  readonly arch: string
  /** Debian's release where none is named. */
  readonly suite: string
  readonly host: readonly { readonly name: string; readonly version: string; readonly directory: string }[]
}

export type Source =
  | { readonly kind: 'host'; readonly version: string; readonly directory: string }
  | { readonly kind: 'debian'; readonly version: string; readonly tool: DebianTool }
  | {
      readonly kind: 'npm'
      readonly version: string
      readonly package: string
      readonly sha512: string | undefined
      /** Of Node: the npm that goes with it, since that package has none. */
      readonly npm?: Listed | undefined
    }
  | { readonly kind: 'go'; readonly version: string; readonly arch: string }

/** A base to stand on. */
export type Ground = { readonly base: 'host' } | { readonly base: 'debian'; readonly suite: Suite }

/** Languages whose programs come from npm, by the package of an architecture. */
const FROM_NPM: Partial<Record<Language, (arch: string) => string>> = {
  node: (arch) => `node-linux-${arch}`,
  bun: (arch) => `@oven/bun-linux-${arch === 'arm64' ? 'aarch64' : arch}`,
  deno: (arch) => `@deno/linux-${arch}-glibc`,
}

/** Languages that need no toolchain of their own, or share another's. */
const SHARED: Partial<Record<Language, Language>> = { kotlin: 'java' }
const NONE: readonly Language[] = ['static', 'shell']

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
}

/** Looks on one base. An unreachable registry is an error only where nothing else has it. */
export async function seek(
  language: Language,
  wish: string,
  ground: Ground,
  machine: Machine,
  lists: Listings,
): Promise<Sought> {
  const wanted = SHARED[language] ?? language
  const tried: Tried[] = []
  if (ground.base === 'host') {
    const there = machine.host.filter(({ name }) => name === toolName(wanted))
    const found = there.find(({ version }) => satisfies(wanted, version, wish))
    if (found) return { source: { kind: 'host', ...found }, tried }
    tried.push({ where: 'this machine', had: there.map(({ version }) => version) })
  } else {
    const there = DEBIAN[ground.suite][wanted] ?? []
    const found = there.find(({ version }) => satisfies(wanted, version, debianWish(wish)))
    if (found) return { source: { kind: 'debian', version: found.version, tool: found }, tried }
    tried.push({ where: `Debian ${ground.suite}`, had: there.map(({ version }) => version) })
  }
  const source = await fromRegistry(wanted, wish, machine, lists, tried)
  return { source, tried }
}

/** Debian names a line and not a patch: `3.11.4` is had where 3.11 is. */
function debianWish(wish: string): string {
  return wish.replace(/^v?(\d+\.\d+)\.\d+$/, '$1')
}

/** The tool of the machine that is the language. */
function toolName(language: Language): string {
  return language === 'c' ? 'gcc' : language
}

async function fromRegistry(
  language: Language,
  wish: string,
  machine: Machine,
  lists: Listings,
  tried: Tried[],
): Promise<Source | undefined> {
  const name = FROM_NPM[language]?.(machine.arch)
  if (name) {
    const found = newest(language, await lists.npm(name), wish, tried, `npm's ${name}`)
    if (!found) return undefined
    const { version, sha512 } = found
    const npm = language === 'node' ? await npmFor(version, lists) : undefined
    return { kind: 'npm', version, package: name, sha512, npm }
  }
  if (language !== 'go') return undefined
  const arch = machine.arch === 'x64' ? 'amd64' : machine.arch
  const found = newest(language, await lists.go(arch), wish, tried, 'the Go module proxy')
  return found && { kind: 'go', version: found.version, arch }
}

/** The newest npm of the line that runs on a version of Node. */
async function npmFor(node: string, lists: Listings): Promise<Listed | undefined> {
  const line = satisfies('node', node, '>=22.9') ? '11' : satisfies('node', node, '>=18.17') ? '10' : '9'
  const fitting = (await lists.npm('npm')).filter(({ version }) => satisfies('tool', version, line))
  return fitting.toSorted((a, b) => byVersion(a.version, b.version))[0]
}

function newest(
  language: Language,
  versions: readonly Listed[],
  wish: string,
  tried: Tried[],
  where: string,
): Listed | undefined {
  const fitting = versions
    .filter(({ version }) => satisfies(language, version, wish))
    .toSorted((a, b) => byVersion(a.version, b.version))
  const line = PREFERRED[language]
  const found = (line && fitting.find(({ version }) => satisfies(language, version, line))) ?? fitting[0]
  if (!found) tried.push({ where, had: lines(versions) })
  return found || undefined
}

/** Of hundreds of versions, one of each line, newest first. */
function lines(versions: readonly Listed[]): string[] {
  const all = versions.map(({ version }) => version).toSorted(byVersion)
  return [...new Set(all.map((version) => version.split('.')[0] ?? version))].slice(0, 8)
}

/** Every release of Debian that has it, for the diagnostic of one that does not. */
export function otherSuites(language: Language, wish: string): Suite[] {
  return SUITES.filter((suite) =>
    (DEBIAN[suite][SHARED[language] ?? language] ?? []).some(({ version }) =>
      satisfies(language, version, debianWish(wish)),
    ),
  )
}

export function cannotBeHad(
  language: Language,
  wish: { readonly value: string; readonly where: string },
  tried: readonly Tried[],
): AgentPodError {
  const said = tried.map(({ where, had }) => `${where} has ${had.length > 0 ? had.join(', ') : 'none'}`)
  const near = tried
    .flatMap(({ had }) => had)
    .toSorted(byVersion)
    .at(0)
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'language.unavailable',
    message: `${wish.where}: ${language} ${wish.value} cannot be had: ${said.join('; ')}`,
    hint: near
      ? `write one that can, in agentpod.toml: [environment.languages] ${language} = "${near}"`
      : `install ${language} on this machine, or leave it out: [environment.languages] ${language} = false`,
    details: { language, wish: wish.value, tried: tried.map(({ where, had }) => ({ where, had })) },
  })
}
