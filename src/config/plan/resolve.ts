/** From what a project has and says to a plan. One order of precedence; everything taken has a reason, and so has everything left. */

import { kindOf } from '../../bases/bases.ts'
import { DEBIAN_PACKAGE } from '../../bases/debian-packages.ts'
import type { Ground, Machine } from '../../bases/kind.ts'
import { homeOf } from '../../core/environment.ts'
import { invalid, isAgentPodError } from '../../core/error.ts'
import { inOrder } from '../../util/shell-script.ts'
import type { Detected } from '../detect/detect.ts'
import { type Finding, type FoundTool, type Language, VERBS, type Verb } from '../detect/finding.ts'
import type { Choice, Evidence } from '../evidence.ts'
import { CLIENT_PRESETS, type ClientPreset } from '../presets/catalog.ts'
import { printable } from '../problem.ts'
import type { ProjectData } from '../project/data.ts'
import { within } from '../tree.ts'
import { agentSetup } from './agent-setup.ts'
import { chooseBase } from './ground.ts'
import { languageWish, planLanguage, wantedLanguages } from './languages.ts'
import type { Listed } from './listings.ts'
import { NAMED_BASES } from './named-bases.ts'
import type {
  CommandPlan,
  LanguagePlan,
  PackagePlan,
  Plan,
  PortPlan,
  Refused,
  SetupPlan,
  ToolPlan,
  VariablePlan,
} from './plan.ts'
import type { ResolveInput } from './resolve-input.ts'
import {
  addressHere,
  planService,
  type ServicePlan,
  serviceVariables,
  unknownServices,
  wantedServices,
} from './service-plan.ts'
import { satisfies } from './version.ts'

/** The plan, unless something that it needs is not available. */
export function buildable(plan: Plan): Plan {
  const [first] = plan.refused
  if (first) throw first.error
  return plan
}

export async function resolvePlan(input: ResolveInput): Promise<Plan> {
  return buildable(await draftPlan(input))
}

/** What is not available is in `refused`, and all the rest is planned, so that people can look at it. */
export async function draftPlan(input: ResolveInput): Promise<Plan> {
  const { detected, file, machine } = input
  const data = file?.data
  const findings = detected.findings.filter(({ language }) => languageWish(data, language) !== false)
  const languages = wantedLanguages(input, findings, [
    ...(namedBase(input)?.languages ?? []),
    ...impliedLanguages(input, findings),
  ])
  const services = wantedServices(detected.services, data?.services ?? [], file?.name ?? '')
  const { packages, odd } = wantedPackages(input, findings)
  const needed = packages.filter(({ isOptional }) => !isOptional)
  const tools = wantedTools(findings)
  const { ground, choice } = await chooseBase(input, {
    languages,
    services,
    packages: needed,
    tools: tools.wanted,
  })
  const refused: Refused[] = []
  const kept = <T>(key: string, wish: Choice, work: () => Promise<T> | T): Promise<T[]> =>
    keptOrRefused(refused, key, wish, work)
  const found = (
    await Promise.all(
      languages.map((one) =>
        kept(`languages.${one.language}`, one.wish, () => planLanguage(input, one, ground)),
      ),
    )
  ).flat()
  const running = (
    await Promise.all(
      services.map((one) =>
        kept(`services.${one.name}`, one.choice, () => planService(ground, machine, one)),
      ),
    )
  ).flat()
  const servicePlans = running.filter((one): one is ServicePlan => !('missing' in one))
  checkPorts(servicePlans)
  const kind = kindOf(ground.base)
  const user = userOf(data, kind.user)
  const workspace = `${homeOf(user)}/${input.name}`
  const toolPlans = planTools(tools.wanted, ground, machine)
  const there = toolPlans.filter(({ from }) => kind.packageManager !== undefined || from !== 'packages')
  const without = findings.filter((one) => lacksTool(one, there))
  const agent =
    data?.lifecycle.setup === undefined ? agentSetup(detected, findings) : { setups: [], notes: [] }
  const setups = [
    ...planSetups(
      input,
      findings.filter((one) => !without.includes(one)),
      detected,
    ),
    ...agent.setups,
  ]
  const path = pathOf(found, toolPlans, findings, workspace)
  return {
    name: data?.environment.name ?? input.name,
    workspace,
    user,
    sudo: data?.environment.sudo ?? false,
    base: choice,
    ground,
    languages: found,
    refused,
    tools: toolPlans,
    packages: packages.map((one) => ({
      ...one,
      isThere: kind.hasPackage(machine, one.name),
    })),
    extra: extraPackages(data),
    services: servicePlans,
    findings,
    setups,
    commands: planCommands(input, findings, detected),
    ports: planPorts(input, findings),
    variables: [...homes(found, toolPlans), ...planVariables(input, findings, servicePlans, workspace, user)],
    path: path.directories,
    presets: planPresets(input, findings, ground, { found, tools: toolPlans, setups: agent.setups }),
    generated: [...new Set(findings.flatMap(({ generated }) => generated))],
    resources: data?.resources ?? {},
    notes: [
      ...found.flatMap(({ wish }) => (wish.note ? [wish.note] : [])),
      ...running.flatMap((one) =>
        'missing' in one ? [`left out: ${one.missing}`] : one.note ? [one.note] : [],
      ),
      ...unknownServices(detected.services, data?.services ?? []),
      ...findings.flatMap(({ notes = [], directory }) =>
        notes.map((note) => (directory === '' ? note : `${directory}: ${note}`)),
      ),
      ...detected.notes,
      ...agent.notes,
      ...odd,
      ...tools.refused,
      ...without.map(lackingNote),
      ...lackingHere(ground, machine, needed, tools.wanted),
      ...path.refused,
      ...missingInputs(input, detected),
      ...kotlinNote(data),
    ],
  }
}

/** What is not available is one refusal of several; anything else goes wrong at once. */
async function keptOrRefused<T>(
  refused: Refused[],
  key: string,
  wish: Choice,
  work: () => Promise<T> | T,
): Promise<T[]> {
  try {
    return [await work()]
  } catch (error) {
    if (!isAgentPodError(error, 'failed_precondition') && !isAgentPodError(error, 'unavailable')) throw error
    refused.push({ key, wish, error })
    return []
  }
}

const USER = /^[a-z_][a-z0-9_-]{0,31}$/

/** SECURITY: CF-02. The name is part of paths and of commands. */
function userOf(data: ProjectData | undefined, usual: string): string {
  const user = data?.environment.user ?? usual
  if (USER.test(user)) return user
  throw invalid('environment.user', `${JSON.stringify(printable(user))} is not the name of a user`)
}

function checkPorts(services: readonly ServicePlan[]): void {
  const taken = new Map<number, string>()
  for (const { name, known, port } of services) {
    if (known === undefined) continue
    const other = taken.get(port)
    if (other !== undefined)
      throw invalid(
        'service.port',
        `the services ${other} and ${name} both listen on port ${port}`,
        `give one of them another port in agentpod.toml: [services] ${name} = { port = ${port + 1} }`,
      )
    taken.set(port, name)
  }
}

function namedBase({ base, file }: ResolveInput): (typeof NAMED_BASES)[string] | undefined {
  const name = base ?? file?.data.environment.base ?? ''
  return Object.hasOwn(NAMED_BASES, name) ? NAMED_BASES[name] : undefined
}

const MOST_NAMED = 8

/** Of a base that nothing is installed on. */
function lackingHere(
  ground: Ground,
  machine: Machine,
  packages: readonly Pick<PackagePlan, 'name'>[],
  tools: readonly FoundTool[],
): string[] {
  const kind = kindOf(ground.base)
  if (kind.packageManager !== undefined) return []
  const lacking = kind.lacking(ground, machine, {
    packages: packages.map(({ name }) => name),
    tools: tools.map(({ name }) => name),
  })
  const names = [...lacking.packages.map((name) => `the package ${printable(name)}`), ...lacking.tools]
  if (names.length === 0) return []
  return [
    `not known to be ${kind.within(ground)}, where nothing is installed: ${names.slice(0, MOST_NAMED).join(', ')}${names.length > MOST_NAMED ? ' and more' : ''}; base = "debian" has them`,
  ]
}

function missingInputs({ file }: ResolveInput, { tree }: Detected): string[] {
  const setup = file?.data.lifecycle.setup
  const inputs = setup ? (setup.inputs ?? []) : []
  return inputs
    .filter((path) => !tree.has(path))
    .map((path) => `${file?.name} names ${path} as an input of setup, and there is no such file`)
}

function kotlinNote(data: ProjectData | undefined): string[] {
  return typeof languageWish(data, 'kotlin') === 'string'
    ? [
        'the version of Kotlin is chosen by the build itself; [environment.languages] java chooses what it runs on',
      ]
    : []
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

/** SECURITY: CF-02. What a workflow or a file for agents installs is a name of Debian's, or it is left out and told. */
function wantedPackages(
  input: ResolveInput,
  findings: readonly Finding[],
): { readonly packages: readonly Omit<PackagePlan, 'isThere'>[]; readonly odd: readonly string[] } {
  const { file, detected } = input
  const asked = (file?.data.environment.packages.apt ?? []).map((name) => ({
    name,
    evidence: {
      file: file?.name ?? '',
      line: file?.lineOf(['environment', 'packages', 'apt']),
      said: `apt = ["${name}"]`,
    },
  }))
  const named = (namedBase(input)?.packages ?? []).map((name) => ({
    name,
    evidence: { file: '', said: `part of the base ${input.base ?? file?.data.environment.base}` },
  }))
  const all = [...asked, ...named, ...findings.flatMap(({ packages }) => packages), ...detected.packages]
  const distinctOnes = [...new Map(all.toReversed().map((one) => [one.name, one])).values()].toReversed()
  return {
    packages: distinctOnes
      .filter(({ name }) => DEBIAN_PACKAGE.test(name))
      .map((one) => ({ ...one, isOptional: isOfWorkflow(one.evidence) })),
    odd: distinctOnes
      .filter(({ name }) => !DEBIAN_PACKAGE.test(name))
      .map(
        ({ name, evidence }) =>
          `left out: ${JSON.stringify(printable(name))}, which ${evidence.file} installs, is no name of a package`,
      ),
  }
}

/** Steps for agents are meant for machines like ours; other workflows for whatever CI runs on. */
function isOfWorkflow({ file }: Evidence): boolean {
  return file.startsWith('.github/workflows/') && !/copilot-setup-steps\.ya?ml$/.test(file)
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

/** A version or a range: no address, no path and no option of the package manager that it is handed to. */
const TOOL_VERSION = /^[A-Za-z0-9<>=~^!*][A-Za-z0-9 .,_+*^~<>=!|-]{0,63}$/

/** The first that is found of each name. A version that is none is left out and told. */
function wantedTools(findings: readonly Finding[]): {
  readonly wanted: readonly FoundTool[]
  readonly refused: readonly string[]
} {
  const tools = new Map<string, FoundTool>()
  const refused: string[] = []
  for (const tool of findings.flatMap((finding) => finding.tools)) {
    const { name, version, evidence } = tool
    if (tools.has(name)) continue
    const isPlain = version === undefined || TOOL_VERSION.test(version)
    tools.set(name, isPlain ? tool : { name, evidence })
    if (!isPlain)
      refused.push(
        `${evidence.file} wants ${name} ${JSON.stringify(printable(version))}, which is no version; the newest is taken`,
      )
  }
  return { wanted: [...tools.values()], refused }
}

function planTools(wanted: readonly FoundTool[], ground: Ground, machine: Machine): ToolPlan[] {
  const kind = kindOf(ground.base)
  return wanted.flatMap((tool): ToolPlan[] => {
    const { name, version, evidence } = tool
    const here = kind.tool(machine, name, (one) => version === undefined || satisfies('tool', one, version))
    if (here) return [{ name, evidence, from: 'base', ...here }]
    if (NPM_TOOLS.includes(name)) return [{ name, version, evidence, from: 'npm' }]
    if (PIP_TOOLS.includes(name)) return [{ name, version, evidence, from: 'pip' }]
    if (kind.isPackaged(ground, name)) return [{ name, version, evidence, from: 'packages' }]
    return []
  })
}

/** Whether a language of whatever toolchain there is has none here. */
function lacksTool({ language, tools }: Finding, there: readonly ToolPlan[]): boolean {
  return language === 'other' && tools.some(({ name }) => !there.some((one) => one.name === name))
}

function lackingNote({ label, evidence, tools }: Finding): string {
  const names = tools.map(({ name }) => name).join(' and ')
  return `${evidence.file} is a sign of ${label}, and neither this base nor Debian has what it needs: install ${names} on this machine, or by a command in agentpod.toml, [lifecycle] setup`
}

function planSetups(input: ResolveInput, findings: readonly Finding[], detected: Detected): SetupPlan[] {
  const wish = input.file?.data.lifecycle.setup
  if (wish === false) return []
  const found = findings.flatMap((finding): SetupPlan[] => {
    const { setup } = finding.commands
    if (!setup) return []
    const { directory, inputs, stubs = {}, presets, variables = {}, label = finding.language } = finding
    const name = directory === '' ? label : `${label}/${directory}`
    return [
      {
        name: `dependencies/${name.toLowerCase().replaceAll(/[^a-z0-9._/-]/g, '-')}`.slice(
          0,
          LONGEST_STEP_NAME,
        ),
        directory,
        manager: finding.manager?.name ?? label,
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
      run: inOrder(wish.commands),
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

/** With room for what makes it unique. */
const LONGEST_STEP_NAME = 90

/** Step names are unique. */
function distinct(setups: readonly SetupPlan[]): SetupPlan[] {
  const taken = new Set<string>()
  return setups.map((setup) => {
    let name = setup.name
    for (let count = 2; taken.has(name); count++) name = `${setup.name}-${count}`
    taken.add(name)
    return { ...setup, name }
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
          run: wish.commands.length === 1 ? (wish.commands[0] ?? '') : inOrder(wish.commands),
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
    const said = detected.commands[verb]
    // A Procfile was written to say how the project is started.
    const fallback = own.length === 0 || said?.evidence.file === 'Procfile' ? said : undefined
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
  const isPort = ({ port }: PortPlan): boolean => Number.isInteger(port) && port > 0 && port < 65_536
  return [...new Map([...found, ...asked].filter(isPort).map((one) => [one.port, one])).values()]
}

/**
 * Where toolchains are, for programs that ask: what is compiled for Node wants its headers, which would otherwise be fetched from a host of
 * its own, and Maven believes the machine's JAVA_HOME before the PATH.
 */
function homes(languages: readonly LanguagePlan[], tools: readonly ToolPlan[]): VariablePlan[] {
  return languages.flatMap(({ language, source }): VariablePlan[] => {
    const isNode = language === 'node' && source.kind === 'npm'
    const isTold = isNode || (language === 'java' && source.kind === 'there')
    const [bin = ''] = directoryOf(language, source)
    if (!isTold || !bin.endsWith('/bin') || SYSTEM.includes(bin)) return []
    const names = isNode ? headersVariables(source.npm, tools) : ['JAVA_HOME']
    const evidence = { file: '', said: `where ${language} is` }
    return names.map((name) => ({ name, value: bin.slice(0, -4), evidence }))
  })
}

/**
 * From its eleventh version on, npm warns of settings that are not its own at every call, and has a node-gyp that reads this one elsewhere.
 * Other package managers may have an older node-gyp, and do not warn.
 */
function headersVariables(npm: Listed | undefined, tools: readonly ToolPlan[]): readonly string[] {
  if (npm === undefined || !satisfies('tool', npm.version, '>=11')) return ['npm_config_nodedir']
  const hasOther = tools.some(({ name }) => NPM_TOOLS.includes(name))
  return ['npm_package_config_node_gyp_nodedir', ...(hasOther ? ['npm_config_nodedir'] : [])]
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
    ...detected.variables.flatMap(({ name, value, evidence }) => {
      const here = addressHere(value, services, user)
      return here === undefined ? [] : [{ name, value: here, evidence }]
    }),
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
  return [...new Map(all.filter(isVariable).map((one) => [one.name, one])).values()]
}

/** SECURITY: CF-02. What no process could be given, and what is ours, is left out. */
function isVariable({ name, value }: VariablePlan): boolean {
  return (
    /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) &&
    !/^AGENTPOD_/i.test(name) &&
    value.length <= 32 * 1024 &&
    !value.includes('\0')
  )
}

export function inside(text: string, workspace: string): string {
  return text.replaceAll('$WORKSPACE', workspace)
}

/** The directory of Debian's own programs is on every PATH. */
const SYSTEM = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** What has a colon in it would be two directories, and what has a line end would be two lines. */
const DIRECTORY = /^\/[^:\p{Cc}]{0,1000}$/u
const MOST_DIRECTORIES = 64

function pathOf(
  languages: readonly LanguagePlan[],
  tools: readonly ToolPlan[],
  findings: readonly Finding[],
  workspace: string,
): { readonly directories: string[]; readonly refused: readonly string[] } {
  const all = [
    ...new Set([
      ...findings.flatMap(({ path = [] }) => path.map((one) => inside(one, workspace))),
      TOOLS_BIN,
      ...languages.flatMap(({ language, source: one }) => directoryOf(language, one)),
      ...tools.flatMap(({ directory }) => directory ?? []),
    ]),
  ].filter((directory) => !SYSTEM.includes(directory))
  const fit = all.filter((directory) => DIRECTORY.test(directory))
  const odd = all.filter((directory) => !DIRECTORY.test(directory))
  return {
    // Of very many directories of a project, those of the languages count.
    directories: fit.length <= MOST_DIRECTORIES ? fit : fit.slice(-MOST_DIRECTORIES),
    refused: odd.map((directory) => `${printable(directory, 200)} cannot be on the PATH`),
  }
}

/** Where tools and packages are installed to. */
export const TOOLS = '/opt/agentpod/tools'
export const TOOLS_BIN = `${TOOLS}/bin`

export function directoryOf(language: Language, one: LanguagePlan['source']): string[] {
  switch (one.kind) {
    case 'there':
      return [one.directory]
    case 'packaged':
      return one.tool.directory ? [one.tool.directory] : []
    case 'own':
      return []
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
    readonly setups: readonly SetupPlan[]
  },
): Plan['presets'] {
  const wanted = new Map<ClientPreset, Evidence>()
  const add = (name: ClientPreset, evidence: Evidence): void => {
    if (!wanted.has(name)) wanted.set(name, evidence)
  }
  for (const { presets, evidence } of [...findings, ...o.setups])
    for (const name of presets) add(name, evidence)
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
  const { packageManager } = kindOf(ground.base)
  if (packageManager) add(packageManager, { file: '', said: 'the base is Debian' })
  return CLIENT_PRESETS.flatMap((name) => {
    const evidence = wanted.get(name)
    return evidence ? [{ name, evidence }] : []
  })
}

/** A file in a directory of the project, as it lies inside. */
export function insidePath(workspace: string, directory: string): string {
  return directory === '' ? workspace : within(workspace, directory)
}
