/** From what a project has and says to a plan. One order of precedence; everything taken has a reason, and so has everything left. */
import { AgentPodError } from '../../core/error.ts'
import type { Detected } from '../detect/detect.ts'
import type { Finding, FoundTool, Language, Verb } from '../detect/finding.ts'
import { VERBS } from '../detect/finding.ts'
import type { Candidate, Choice, Evidence } from '../evidence.ts'
import { CLIENT_PRESETS, type ClientPreset } from '../presets/catalog.ts'
import type { ProjectData } from '../project/data.ts'
import type { ProjectLanguage } from '../project/environment-table.ts'
import { within } from '../tree.ts'
import { isSuite, NAMED_BASES, PACKAGE_TOOLS, SUITES, type Suite, TOOL_PACKAGES } from './debian.ts'
import { decideVersion } from './decide.ts'
import type { Listings } from './listings.ts'
import type {
  CommandPlan,
  LanguagePlan,
  PackagePlan,
  Plan,
  PortPlan,
  SetupPlan,
  ToolPlan,
  VariablePlan,
} from './plan.ts'
import {
  canRun,
  planService,
  type ServicePlan,
  serviceVariables,
  type WantedService,
  wantedServices,
} from './service-plan.ts'
import {
  cannotBeHad,
  DEFAULT_WISH,
  type Ground,
  type Machine,
  needsToolchain,
  seek,
  type Tried,
} from './sources.ts'
import { satisfies } from './version.ts'

export interface ResolveInput {
  /** The name of the project's directory. */
  readonly name: string
  readonly detected: Detected
  /** What agentpod.toml says, of which only what was granted is left. */
  readonly file?:
    | {
        readonly name: string
        readonly data: ProjectData
        lineOf(path: readonly string[]): number | undefined
      }
    | undefined
  readonly machine: Machine
  readonly lists: Listings
  /** What agentpod.lock pins: versions of languages, by name. */
  readonly pinned?: Readonly<Record<string, string>> | undefined
  /** A base that was asked for on the command line. */
  readonly base?: string | undefined
}

interface WantedLanguage {
  readonly language: Language
  readonly wish: Choice
}

const NOBODY: Evidence = { file: '', said: 'nobody says' }

export async function resolvePlan(input: ResolveInput): Promise<Plan> {
  const { detected, file, machine } = input
  const data = file?.data
  const findings = detected.findings.filter(({ language }) => languageWish(data, language) !== false)
  const languages = wantedLanguages(input, findings)
  const services = wantedServices(detected.services, data?.services ?? [], file?.name ?? '')
  const packages = wantedPackages(input, findings)
  const base = await chooseBase(input, { languages, services, packages })
  const { ground } = base
  const found = await Promise.all(languages.map((one) => source(input, one, ground)))
  const running = services.map((one) => planService(ground, machine, one))
  const servicePlans = running.filter((one): one is ServicePlan => !('missing' in one))
  const user = data?.environment.user ?? 'user'
  const workspace = `${user === 'root' ? '/root' : `/home/${user}`}/${input.name}`
  const tools = planTools(findings, ground, machine)
  const setups = planSetups(input, findings, detected)
  const variables = planVariables(input, findings, servicePlans, workspace, user)
  return {
    name: data?.environment.name ?? input.name,
    workspace,
    user,
    sudo: data?.environment.sudo ?? false,
    base: base.choice,
    ground,
    languages: found,
    tools,
    packages: packages.map((one) => ({ ...one, isThere: ground.base === 'host' })),
    extra: extraPackages(data),
    services: servicePlans,
    findings,
    setups,
    commands: planCommands(input, findings, detected),
    ports: planPorts(input, findings),
    variables,
    path: pathOf(found, tools, findings, workspace),
    presets: planPresets(input, findings, ground, { found, tools, packages }),
    generated: [...new Set(findings.flatMap(({ generated }) => generated))],
    resources: data?.resources ?? {},
    notes: [
      ...found.flatMap(({ wish }) => (wish.note ? [wish.note] : [])),
      ...running.flatMap((one) =>
        'missing' in one ? [`left out: ${one.missing}`] : one.note ? [one.note] : [],
      ),
      ...findings.flatMap(({ notes = [], directory }) =>
        notes.map((note) => (directory === '' ? note : `${directory}: ${note}`)),
      ),
      ...detected.notes,
      ...base.notes,
    ],
  }
}

function languageWish(data: ProjectData | undefined, language: Language): string | false | undefined {
  return data?.environment.languages[language as ProjectLanguage]
}

function wantedLanguages(input: ResolveInput, findings: readonly Finding[]): WantedLanguage[] {
  const data = input.file?.data
  const named = NAMED_BASES[input.base ?? data?.environment.base ?? '']?.languages ?? []
  const asked = Object.entries(data?.environment.languages ?? {}).flatMap(([name, wish]) =>
    wish === false ? [] : [name as Language],
  )
  const implied = impliedLanguages(input, findings)
  const all = [...new Set([...asked, ...findings.map(({ language }) => language), ...named, ...implied])]
  return all.filter(needsToolchain).flatMap((language) => {
    if (languageWish(data, language) === false) return []
    const wish = decideVersion(language, candidatesOf(input, findings, language)) ?? defaultWish(language)
    return [{ language, wish }]
  })
}

/** Tools that are programs of a language bring the language: poetry is Python's, pnpm is Node's. */
function impliedLanguages(input: ResolveInput, findings: readonly Finding[]): Language[] {
  const tools = findings.flatMap((finding) => finding.tools.map(({ name }) => name))
  const extra = extraPackages(input.file?.data)
  return [
    ...(tools.some((name) => NPM_TOOLS.includes(name)) || extra.npm.length > 0 || tools.includes('node')
      ? (['node'] as const)
      : []),
    ...(tools.some((name) => PIP_TOOLS.includes(name)) || extra.pip.length > 0 ? (['python'] as const) : []),
    ...(extra.cargo.length > 0 ? (['rust'] as const) : []),
    ...(extra.go.length > 0 ? (['go'] as const) : []),
  ]
}

function candidatesOf(input: ResolveInput, findings: readonly Finding[], language: Language): Candidate[] {
  const asked = languageWish(input.file?.data, language)
  const pinned = input.pinned?.[language]
  const path = ['environment', 'languages', language]
  return [
    ...(typeof asked === 'string'
      ? [
          {
            value: asked,
            rank: 'agentpod.toml' as const,
            evidence: {
              file: input.file?.name ?? '',
              line: input.file?.lineOf(path),
              said: `${language} = "${asked}"`,
            },
          },
        ]
      : []),
    ...(pinned === undefined
      ? []
      : [
          {
            value: pinned,
            rank: 'lock' as const,
            evidence: { file: 'agentpod.lock', said: `${language} ${pinned}` },
          },
        ]),
    ...findings.filter((one) => one.language === language).flatMap(({ versions }) => versions),
  ]
}

function defaultWish(language: Language): Choice {
  return {
    value: DEFAULT_WISH[language] ?? '*',
    rank: 'default',
    evidence: { file: '', said: 'nobody says which version' },
    beat: [],
  }
}

type Wanted = {
  readonly languages: readonly WantedLanguage[]
  readonly services: readonly WantedService[]
  readonly packages: readonly Omit<PackagePlan, 'isThere'>[]
}

interface ChosenBase {
  readonly ground: Ground
  readonly choice: Choice
  readonly notes: readonly string[]
}

/** This machine's own tools where they will do, since that costs nothing; else the release of Debian that has most. */
async function chooseBase(input: ResolveInput, wanted: Wanted): Promise<ChosenBase> {
  const asked = input.base ?? input.file?.data.environment.base
  const suite = input.file?.data.environment.suite
  const rank = input.base === undefined ? ('agentpod.toml' as const) : ('flag' as const)
  const evidence: Evidence =
    input.base === undefined
      ? {
          file: input.file?.name ?? '',
          line: input.file?.lineOf(['environment', 'base']),
          said: `base = "${asked}"`,
        }
      : { file: '', said: `--base ${asked}` }
  if (asked === 'host') {
    return { ground: { base: 'host' }, choice: { value: 'host', rank, evidence, beat: [] }, notes: [] }
  }
  if (asked === undefined && suite === undefined) {
    const lacking = await lackingOn({ base: 'host' }, input, wanted)
    const said = { file: '', said: 'this machine has everything that is needed' }
    if (lacking.length === 0)
      return {
        ground: { base: 'host' },
        choice: { value: 'host', rank: 'default', evidence: said, beat: [] },
        notes: [],
      }
    const { ground, notes } = await chooseSuite(input, wanted, undefined)
    const why = `this machine lacks ${lacking.slice(0, 4).join(', ')}${lacking.length > 4 ? ', ...' : ''}`
    return {
      ground,
      notes,
      choice: {
        value: 'debian',
        rank: 'default',
        evidence: { file: '', said: why },
        beat: [{ value: 'host', evidence: NOBODY, why }],
      },
    }
  }
  const { ground, notes } = await chooseSuite(input, wanted, suite)
  return { ground, notes, choice: { value: asked ?? 'debian', rank, evidence, beat: [] } }
}

async function chooseSuite(
  input: ResolveInput,
  wanted: Wanted,
  asked: string | undefined,
): Promise<{ ground: Ground; notes: string[] }> {
  if (asked !== undefined) {
    if (!isSuite(asked))
      throw new AgentPodError({
        code: 'invalid_argument',
        reason: 'suite.unknown',
        message: `there is no release ${asked} of Debian that we know`,
        hint: `known are ${SUITES.join(', ')}`,
      })
    return { ground: { base: 'debian', suite: asked }, notes: [] }
  }
  const own = input.machine.suite
  const order: Suite[] = [...(isSuite(own) ? [own] : []), ...SUITES.filter((suite) => suite !== own)]
  let best: { suite: Suite; lacking: string[] } | undefined
  for (const suite of order) {
    const lacking = await lackingOn({ base: 'debian', suite }, input, wanted)
    if (!best || lacking.length < best.lacking.length) best = { suite, lacking }
    if (lacking.length === 0) break
  }
  return { ground: { base: 'debian', suite: best?.suite ?? 'bookworm' }, notes: [] }
}

/** What a base cannot give, in words. */
async function lackingOn(ground: Ground, input: ResolveInput, wanted: Wanted): Promise<string[]> {
  const { machine, lists } = input
  const lacking: string[] = []
  for (const { language, wish } of wanted.languages) {
    const { source: there } = await seek(language, wish.value, ground, machine, lists)
    if (!there && !isRelaxed(wish)) lacking.push(`${language} ${wish.value}`)
    else if (!there && !(await seek(language, '*', ground, machine, lists)).source) lacking.push(language)
  }
  for (const service of wanted.services) if (!canRun(ground, machine, service)) lacking.push(service.name)
  if (ground.base === 'host') {
    const tools = new Set(machine.host.map(({ name }) => name))
    for (const { name } of wanted.packages) {
      const programs = PACKAGE_TOOLS[name]
      if (!programs?.every((tool) => tools.has(tool))) lacking.push(`the package ${name}`)
    }
    for (const { name } of input.detected.findings.flatMap((one) => one.tools))
      if (Object.hasOwn(TOOL_PACKAGES, name) && !tools.has(name) && !isFromLanguage(name)) lacking.push(name)
  }
  return lacking
}

/** What CI or nobody asked for gives way to what there is. */
function isRelaxed(wish: Choice): boolean {
  return wish.rank === 'ci' || wish.rank === 'default'
}

async function source(
  input: ResolveInput,
  { language, wish }: WantedLanguage,
  ground: Ground,
): Promise<LanguagePlan> {
  const { machine, lists } = input
  const tried: Tried[] = []
  const sought = await seek(language, wish.value, ground, machine, lists)
  if (sought.source) return { language, wish, source: sought.source }
  tried.push(...sought.tried)
  if (isRelaxed(wish)) {
    const any = await seek(language, '*', ground, machine, lists)
    if (any.source)
      return {
        language,
        source: any.source,
        wish: {
          ...wish,
          note: `${language} ${wish.value} is not to be had here; ${any.source.version} is taken`,
        },
      }
  }
  // What the other ground has is near, and worth saying.
  const other: Ground = ground.base === 'host' ? { base: 'debian', suite: 'trixie' } : { base: 'host' }
  tried.push(...(await seek(language, wish.value, other, machine, lists)).tried.slice(0, 1))
  const { file, line } = wish.evidence
  throw cannotBeHad(
    language,
    { value: wish.value, where: line ? `${file}:${line}` : file || 'asked for' },
    tried,
  )
}

function wantedPackages(input: ResolveInput, findings: readonly Finding[]): Omit<PackagePlan, 'isThere'>[] {
  const { file, detected } = input
  const asked = (file?.data.environment.packages.apt ?? []).map((name) => ({
    name,
    evidence: {
      file: file?.name ?? '',
      line: file?.lineOf(['environment', 'packages', 'apt']),
      said: `apt = ["${name}"]`,
    },
  }))
  const named = (NAMED_BASES[input.base ?? file?.data.environment.base ?? '']?.packages ?? []).map(
    (name) => ({
      name,
      evidence: { file: '', said: `part of the base ${input.base ?? file?.data.environment.base}` },
    }),
  )
  const all = [...asked, ...named, ...findings.flatMap(({ packages }) => packages), ...detected.packages]
  return [...new Map(all.toReversed().map((one) => [one.name, one])).values()].toReversed()
}

function extraPackages(data: ProjectData | undefined): Plan['extra'] {
  const { npm = [], pip = [], cargo = [], go = [] } = data?.environment.packages ?? {}
  return { npm, pip, cargo, go }
}

/** Tools that npm brings. */
const NPM_TOOLS: readonly string[] = ['pnpm', 'yarn']

/** The package that has a tool: from its second line on, Yarn is in another one. */
export function npmPackage(name: string, version: string | undefined): string {
  return name === 'yarn' && version !== undefined && !/^[\^~v=]*[01](?:\.|$)/.test(version)
    ? '@yarnpkg/cli-dist'
    : name
}

export const PIP_TOOLS: readonly string[] = ['uv', 'poetry', 'pdm', 'pipenv']

function isFromLanguage(name: string): boolean {
  return NPM_TOOLS.includes(name) || PIP_TOOLS.includes(name)
}

function planTools(findings: readonly Finding[], ground: Ground, machine: Machine): ToolPlan[] {
  const tools = new Map<string, FoundTool>()
  for (const { tools: found } of findings)
    for (const tool of found) if (!tools.has(tool.name)) tools.set(tool.name, tool)
  return [...tools.values()].flatMap((tool): ToolPlan[] => {
    const { name, version, evidence } = tool
    const here = machine.host.find(
      (one) => one.name === name && (version === undefined || satisfies('tool', one.version, version)),
    )
    if (ground.base === 'host' && here)
      return [{ name, version: here.version, evidence, from: 'host', directory: here.directory }]
    if (NPM_TOOLS.includes(name)) return [{ name, version, evidence, from: 'npm' }]
    if (PIP_TOOLS.includes(name)) return [{ name, version, evidence, from: 'pip' }]
    if (Object.hasOwn(TOOL_PACKAGES, name)) return [{ name, version, evidence, from: 'debian' }]
    return []
  })
}

function planSetups(input: ResolveInput, findings: readonly Finding[], detected: Detected): SetupPlan[] {
  const wish = input.file?.data.lifecycle.setup
  if (wish === false) return []
  const found = findings.flatMap((finding): SetupPlan[] => {
    const { setup } = finding.commands
    if (!setup) return []
    const { directory, inputs, stubs = {}, presets, variables = {} } = finding
    const name = directory === '' ? finding.language : `${finding.language}/${directory}`
    return [
      {
        name: `dependencies/${name.toLowerCase().replaceAll(/[^a-z0-9._/-]/g, '-')}`,
        directory,
        manager: finding.manager?.name ?? finding.language,
        run: setup.run,
        evidence: setup.evidence,
        inputs,
        stubs,
        presets,
        variables,
      },
    ]
  })
  if (wish === undefined) return distinct(found)
  const run = wish.commands.join('\n')
  const inputs = wish.inputs ?? [
    ...new Set([...found.flatMap((one) => one.inputs), ...namedFiles(run, detected)]),
  ]
  return [
    {
      name: 'setup',
      directory: '',
      manager: 'your command',
      run: `set -e\n${run}`,
      evidence: {
        file: input.file?.name ?? '',
        line: input.file?.lineOf(['lifecycle', 'setup']),
        said: '[lifecycle] setup',
      },
      inputs: [...inputs].sort(),
      stubs: Object.assign({}, ...found.map((one) => one.stubs)) as Record<string, string>,
      presets: [...new Set(found.flatMap((one) => one.presets))],
      variables: Object.assign({}, ...found.map((one) => one.variables)) as Record<string, string>,
    },
  ]
}

/** Step names are unique. */
function distinct(setups: readonly SetupPlan[]): SetupPlan[] {
  const seen = new Map<string, number>()
  return setups.map((setup) => {
    const count = (seen.get(setup.name) ?? 0) + 1
    seen.set(setup.name, count)
    return count === 1 ? setup : { ...setup, name: `${setup.name}-${count}` }
  })
}

/** Files of the project that a command names: scripts, mostly; and the Makefile of `make`. */
function namedFiles(run: string, { tree }: Detected): string[] {
  const words = run.split(/[\s;&|()'"]+/).map((word) => word.replace(/^\.\//, ''))
  const tasks = words.includes('make') ? ['Makefile', 'GNUmakefile', 'makefile'] : []
  return [...words, ...tasks].filter((word) => tree.has(word))
}

function planCommands(
  input: ResolveInput,
  findings: readonly Finding[],
  detected: Detected,
): Plan['commands'] {
  const of = (verb: Verb): CommandPlan[] => {
    const wish = input.file?.data.lifecycle[verb]
    if (wish === false) return []
    if (wish)
      return [
        {
          directory: '',
          run: wish.commands.length === 1 ? (wish.commands[0] ?? '') : `set -e\n${wish.commands.join('\n')}`,
          rank: 'agentpod.toml',
          evidence: {
            file: input.file?.name ?? '',
            line: input.file?.lineOf(['lifecycle', verb]),
            said: `[lifecycle] ${verb}`,
          },
        },
      ]
    const own = findings.flatMap((finding): CommandPlan[] => {
      const command = finding.commands[verb]
      return command ? [{ directory: finding.directory, ...command, rank: 'manifest' }] : []
    })
    const fallback = own.length === 0 ? detected.commands[verb] : undefined
    return fallback ? [{ directory: '', ...fallback, rank: 'agent file' }] : own
  }
  return Object.fromEntries(VERBS.map((verb) => [verb, of(verb)])) as unknown as Plan['commands']
}

function planPorts(input: ResolveInput, findings: readonly Finding[]): PortPlan[] {
  const { file, detected } = input
  const asked = (file?.data.ports ?? []).map(({ port, label, isPublic }) => ({
    port,
    label,
    isPublic,
    evidence: {
      file: file?.name ?? '',
      line: file?.lineOf(['ports', String(port)]),
      said: `[ports] ${port}`,
    },
  }))
  const found = [...findings.flatMap(({ ports = [] }) => ports), ...detected.ports].map(
    ({ port, evidence }) => ({
      port,
      label: undefined,
      isPublic: false,
      evidence,
    }),
  )
  return [...new Map([...found, ...asked].map((one) => [one.port, one])).values()]
}

function planVariables(
  input: ResolveInput,
  findings: readonly Finding[],
  services: readonly ServicePlan[],
  workspace: string,
  user: string,
): VariablePlan[] {
  const { file, detected } = input
  const all: VariablePlan[] = [
    ...findings.flatMap(({ variables = {}, evidence }) =>
      Object.entries(variables).map(([name, value]) => ({ name, value: inside(value, workspace), evidence })),
    ),
    ...services.flatMap((service) =>
      Object.entries(serviceVariables(service, user)).map(([name, value]) => ({
        name,
        value,
        evidence: { file: '', said: `the service ${service.name}` },
      })),
    ),
    ...detected.variables,
    ...Object.entries(file?.data.environment.variables ?? {}).map(([name, value]) => ({
      name,
      value,
      evidence: {
        file: file?.name ?? '',
        line: file?.lineOf(['environment', 'variables', name]),
        said: `${name} = ...`,
      },
    })),
  ]
  return [...new Map(all.map((one) => [one.name, one])).values()]
}

export function inside(text: string, workspace: string): string {
  return text.replaceAll('$WORKSPACE', workspace)
}

/** The directory of Debian's own programs is on every PATH. */
const SYSTEM = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

function pathOf(
  languages: readonly LanguagePlan[],
  tools: readonly ToolPlan[],
  findings: readonly Finding[],
  workspace: string,
): string[] {
  return [
    ...new Set([
      ...findings.flatMap(({ path = [] }) => path.map((one) => inside(one, workspace))),
      TOOLS_BIN,
      ...languages.flatMap(({ language, source: one }) => directoryOf(language, one)),
      ...tools.flatMap(({ directory }) => directory ?? []),
    ]),
  ].filter((directory) => !SYSTEM.includes(directory))
}

/** Where tools and packages are installed to. */
export const TOOLS = '/opt/agentpod/tools'
export const TOOLS_BIN = `${TOOLS}/bin`

export function directoryOf(language: Language, one: LanguagePlan['source']): string[] {
  switch (one.kind) {
    case 'host':
      return [one.directory]
    case 'debian':
      return one.tool.directory ? [one.tool.directory] : []
    default:
      return [`/opt/agentpod/${language}-${one.version}/bin`]
  }
}

function planPresets(
  input: ResolveInput,
  findings: readonly Finding[],
  ground: Ground,
  o: {
    readonly found: readonly LanguagePlan[]
    readonly tools: readonly ToolPlan[]
    readonly packages: readonly { readonly evidence: Evidence }[]
  },
): Plan['presets'] {
  const wanted = new Map<ClientPreset, Evidence>()
  const add = (name: ClientPreset, evidence: Evidence): void => {
    if (!wanted.has(name)) wanted.set(name, evidence)
  }
  for (const { presets, evidence } of findings) for (const name of presets) add(name, evidence)
  for (const { language, source: one } of o.found) {
    if (one.kind === 'npm') add('npm', { file: '', said: `${language} comes from npm` })
    if (one.kind === 'go') add('go', { file: '', said: 'Go comes from its module proxy' })
  }
  for (const { name, from, evidence } of o.tools) {
    if (from === 'npm' || from === 'pip') add(from, { ...evidence, said: `${name} comes from ${from}` })
  }
  const extra = extraPackages(input.file?.data)
  for (const name of ['npm', 'pip', 'cargo', 'go'] as const)
    if (extra[name].length > 0)
      add(name, { file: input.file?.name ?? '', said: `[environment.packages] ${name}` })
  if (ground.base === 'debian') add('apt', { file: '', said: 'the base is Debian' })
  return CLIENT_PRESETS.flatMap((name) => {
    const evidence = wanted.get(name)
    return evidence ? [{ name, evidence }] : []
  })
}

/** A file in a directory of the project, as it lies inside. */
export function insidePath(workspace: string, directory: string): string {
  return directory === '' ? workspace : within(workspace, directory)
}
