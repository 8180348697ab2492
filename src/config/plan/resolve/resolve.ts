/**
 * Makes a plan from detection, agentpod.toml and the lock. There is one order of precedence, and every choice
 * has a reason.
 */
import type { Machine, ResolvedBase } from '../../../bases/base-kind.ts'
import { baseKind } from '../../../bases/bases.ts'
import { homeOf } from '../../../core/environment.ts'
import { invalid, isAgentPodError } from '../../../core/error.ts'
import { dropUndefined } from '../../../util/drop-undefined.ts'
import type { Detected } from '../../detect/detect.ts'
import type { FoundTool } from '../../detect/finding.ts'
import { OWN_ORIGIN } from '../../devcontainer/lifecycle.ts'
import type { Choice } from '../../evidence.ts'
import type { ProjectData } from '../../project/data.ts'
import { printable } from '../../toml/problem.ts'
import { addonVariables, planAddon, wantedAddons } from '../addons/addon-plan.ts'
import { chooseBase } from '../choose-base.ts'
import type { DevcontainerEnvironment } from '../devcontainer/devcontainer-environment.ts'
import {
  languageWish,
  planLanguage,
  type WantedLanguage,
  wantedLanguages,
} from '../languages/language-plan.ts'
import { namedBase } from '../named-bases.ts'
import type { PackagePlan, Plan, UnavailableItem } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import { NIX_PROFILE } from '../recipe/nix-step.ts'
import { formatServices, lostProcesses } from '../services/format-services.ts'
import { planService, type ServicePlan, unknownServices, wantedServices } from '../services/service-plan.ts'
import { planCommands } from './commands.ts'
import { formatSetup, formatStarts } from './format-setup.ts'
import { baseName, extraFrom, extraPackages, impliedLanguages, wantedPackages } from './packages.ts'
import { checkPorts, planPorts } from './ports.ts'
import { planPresets } from './presets.ts'
import { planSearchPath } from './search-path.ts'
import { planSetups } from './setups.ts'
import { lackingNote, lacksTool, planTools, wantedTools } from './tools.ts'
import { homes, planVariables } from './variables.ts'

/** Returns the plan, or throws if something it needs is not available. */
export function requireBuildable(plan: Plan): Plan {
  const [first] = plan.refused
  if (first) throw first.error
  return plan
}

export async function resolvePlan(input: PlanInput): Promise<Plan> {
  return requireBuildable(await draftPlan(input))
}

/** Unavailable items are in `refused`; everything else is planned, so that the user can inspect it. */
export async function draftPlan(input: PlanInput): Promise<Plan> {
  const { detected, file, machine } = input
  const data = file?.data
  const findings = detected.findings.filter(({ language }) => languageWish(data, language) !== false)
  const languages = wantedLanguages(input, findings, [
    ...(namedBase(baseName(input))?.languages ?? []),
    ...impliedLanguages(input, findings),
  ])
  const services = [
    ...wantedServices(detected.services, data?.services ?? [], file?.name ?? ''),
    ...formatServices(detected, data?.services ?? []),
  ]
  const addons = wantedAddons(input)
  const { packages, odd } = wantedPackages(input, findings, addons)
  const needed = packages.filter(({ isOptional }) => !isOptional)
  const tools = wantedTools(findings)
  const { resolvedBase, choice } = await chooseBase(input, {
    languages,
    services,
    packages: needed,
    tools: tools.wanted,
  })
  const refused: UnavailableItem[] = []
  const missing: string[] = []
  const kept = <T>(key: string, wish: Choice, work: () => Promise<T> | T): Promise<T[]> =>
    keptOrRefused(refused, key, wish, work)
  const found = (
    await Promise.all(
      languages.map((one) =>
        one.isOptional
          ? plannedOrNoted(missing, one, () => planLanguage(input, one, resolvedBase))
          : kept(`languages.${one.language}`, one.wish, () => planLanguage(input, one, resolvedBase)),
      ),
    )
  ).flat()
  const running = (
    await Promise.all(
      services.map((one) =>
        kept(`services.${one.name}`, one.choice, () => planService(resolvedBase, machine, one)),
      ),
    )
  ).flat()
  const addonPlans = (
    await Promise.all(
      addons.map((one) =>
        kept(`addons.${one.name}`, one.choice, () => planAddon(resolvedBase, machine, one)),
      ),
    )
  ).flat()
  const servicePlans = running.filter((one): one is ServicePlan => !('missing' in one))
  checkPorts(servicePlans)
  const kind = baseKind(resolvedBase.base)
  // A devcontainer is an image with users and commands of its own: another base has nothing of it.
  const devcontainer = kind.takesImage ? input.devcontainer : undefined
  const service = kind.takesImage ? input.service : undefined
  const user = userOf(data, devcontainer?.remoteUser ?? service?.user ?? kind.system.user)
  const workspace = devcontainer?.workspace ?? service?.workspace ?? `${homeOf(user)}/${input.name}`
  const toolPlans = planTools(tools.wanted, resolvedBase, machine)
  const there = toolPlans.filter(({ from }) => kind.tools.packageManager !== undefined || from !== 'packages')
  const without = findings.filter((one) => lacksTool(one, there))
  const isPrepared = devcontainer !== undefined && preparesItself(devcontainer)
  const own = planSetups(input, isPrepared ? [] : findings.filter((one) => !without.includes(one)), detected)
  const { setups, notes: setupNotes } =
    data?.lifecycle.setup === undefined && !isPrepared
      ? formatSetup(detected, findings, own)
      : { setups: own, notes: [] }
  const { starts, notes: startNotes } =
    data?.lifecycle.start === undefined ? formatStarts(detected) : { starts: [], notes: [] }
  const path = planSearchPath(found, toolPlans, [...findings, ...detected.formats], workspace, [
    ...(extraPackages(input).nix.length > 0 ? [`${NIX_PROFILE}/bin`] : []),
  ])
  const variables = planVariables({ ...input, devcontainer }, findings, servicePlans, { workspace, user })
  return {
    name: data?.environment.name ?? input.name,
    workspace,
    user,
    // Root in the sandbox was approved with the image.
    sudo: data?.environment.sudo || devcontainer !== undefined,
    base: choice,
    resolvedBase,
    languages: found,
    refused,
    tools: toolPlans,
    packages: packages.map((one) => ({
      ...one,
      isThere: kind.tools.hasPackage(machine, one.name),
    })),
    extra: extraPackages(input),
    extraFrom: extraFrom(input),
    services: servicePlans,
    addons: addonPlans,
    findings,
    setups,
    commands: planCommands(input, findings, detected),
    starts,
    ports: planPorts({ ...input, devcontainer }, findings),
    variables: [...homes(found, toolPlans), ...addonVariables(addonPlans), ...variables.set],
    unset: variables.unset,
    path: path.directories,
    presets: planPresets({ ...input, devcontainer }, findings, resolvedBase, {
      found,
      tools: toolPlans,
      setups,
      addons: addonPlans,
    }),
    generated: [...new Set(findings.flatMap(({ generated }) => generated))],
    resources: {
      ...input.service?.resources,
      ...devcontainer?.resources,
      ...dropUndefined(data?.resources ?? {}),
    },
    ...(service && { service }),
    ...(devcontainer && { devcontainer }),
    notes: [
      ...devcontainerNotes(input.devcontainer, devcontainer, isPrepared),
      ...found.flatMap(({ wish }) => (wish.note ? [wish.note] : [])),
      ...running.flatMap((one) =>
        'missing' in one ? [`left out: ${one.missing}`] : one.note ? [one.note] : [],
      ),
      ...unknownServices(detected.services, data?.services ?? []),
      ...findings.flatMap(({ notes = [], directory }) =>
        notes.map((note) => (directory === '' ? note : `${directory}: ${note}`)),
      ),
      ...detected.notes.filter((note) => !isAboutOwnFlake(note, extraPackages(input).nix)),
      ...lostProcesses(detected),
      ...missing,
      ...setupNotes,
      ...startNotes,
      ...odd,
      ...tools.refused,
      ...without.map(lackingNote),
      ...lackingHere(resolvedBase, machine, needed, tools.wanted),
      ...path.refused,
      ...missingInputs(input, detected),
      ...kotlinNote(data),
    ],
  }
}

/** A language that only a file of another platform names is left out with a note. */
async function plannedOrNoted<T>(
  notes: string[],
  { wish }: WantedLanguage,
  work: () => Promise<T>,
): Promise<T[]> {
  try {
    return [await work()]
  } catch (error) {
    if (!isAgentPodError(error, 'failed_precondition') && !isAgentPodError(error, 'unavailable')) throw error
    notes.push(`left out, though ${wish.evidence.file || 'a file'} names it: ${error.message}`)
    return []
  }
}

/** Collects errors about unavailable items; other errors are thrown at once. */
async function keptOrRefused<T>(
  refused: UnavailableItem[],
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

/** Commands that install what the project needs, so detection does not. */
function preparesItself({ plan: { lifecycle } }: DevcontainerEnvironment): boolean {
  const stages = ['onCreateCommand', 'updateContentCommand', 'postCreateCommand'] as const
  return stages.some((stage) => lifecycle[stage].some(({ origin }) => origin === OWN_ORIGIN))
}

function devcontainerNotes(
  given: DevcontainerEnvironment | undefined,
  used: DevcontainerEnvironment | undefined,
  isPrepared: boolean,
): readonly string[] {
  if (!given) return []
  if (!used) return [`${given.file} is not used: its Features, users and commands need the base image`]
  const prepared = `${used.file} has commands that prepare the project, so its dependencies are not installed by detection`
  return isPrepared ? [...used.notes, prepared] : used.notes
}

const USER = /^(?:[a-z_][a-z0-9_-]{0,31}|[0-9]{1,10})$/

/** SECURITY: CF-02. The name becomes part of paths and commands. */
function userOf(data: ProjectData | undefined, usual: string): string {
  const user = data?.environment.user ?? usual
  if (USER.test(user)) return user
  throw invalid('environment.user', `${JSON.stringify(printable(user))} is not a valid user name`)
}

const MOST_NAMED = 8

/** For a base on which nothing can be installed. */
function lackingHere(
  resolvedBase: ResolvedBase,
  machine: Machine,
  packages: readonly Pick<PackagePlan, 'name' | 'isAsked'>[],
  tools: readonly FoundTool[],
): string[] {
  const kind = baseKind(resolvedBase.base)
  if (kind.tools.packageManager !== undefined) return []
  const isInstalled = ({ isAsked }: Pick<PackagePlan, 'isAsked'>): boolean =>
    isAsked && kind.tools.ownPackageManager !== undefined
  const lacking = kind.tools.lacking(resolvedBase, machine, {
    packages: packages.filter((one) => !isInstalled(one)).map(({ name }) => name),
    tools: tools.map(({ name }) => name),
  })
  const names = [...lacking.packages.map((name) => `the package ${printable(name)}`), ...lacking.tools]
  if (names.length === 0) return []
  return [
    `may be missing ${kind.texts.locationLabel(resolvedBase)}, where nothing can be installed: ${names.slice(0, MOST_NAMED).join(', ')}${names.length > MOST_NAMED ? ' and more' : ''}; base = "debian" has them`,
  ]
}

function missingInputs({ file }: PlanInput, { tree }: Detected): string[] {
  const setup = file?.data.lifecycle.setup
  const inputs = setup ? (setup.inputs ?? []) : []
  return inputs
    .filter((path) => !tree.has(path))
    .map((path) => `${file?.name} lists ${path} as an input of setup, but the file does not exist`)
}

function kotlinNote(data: ProjectData | undefined): string[] {
  return typeof languageWish(data, 'kotlin') === 'string'
    ? ['the build chooses the version of Kotlin; [environment.languages] java chooses the JDK it runs on']
    : []
}

/** The file is not read, and is built by a step where agentpod.toml names it. */
function isAboutOwnFlake(note: string, nix: readonly string[]): boolean {
  return note.startsWith('flake.nix is not used: ') && nix.some((one) => one.startsWith('.#'))
}
