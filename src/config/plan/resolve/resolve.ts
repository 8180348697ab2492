/**
 * Makes a plan from detection, agentpod.toml and the lock. There is one order of precedence, and every choice
 * has a reason.
 */
import type { Machine, ResolvedBase } from '../../../bases/base-kind.ts'
import { baseKind } from '../../../bases/bases.ts'
import { homeOf } from '../../../core/environment.ts'
import { invalid, isAgentPodError } from '../../../core/error.ts'
import type { Detected } from '../../detect/detect.ts'
import type { FoundTool } from '../../detect/finding.ts'
import type { Choice } from '../../evidence.ts'
import type { ProjectData } from '../../project/data.ts'
import { printable } from '../../toml/problem.ts'
import { chooseBase } from '../choose-base.ts'
import { languageWish, planLanguage, wantedLanguages } from '../languages/language-plan.ts'
import { namedBase } from '../named-bases.ts'
import type { PackagePlan, Plan, UnavailableItem } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import { planService, type ServicePlan, unknownServices, wantedServices } from '../services/service-plan.ts'
import { agentSetup } from './agent-setup.ts'
import { planCommands } from './commands.ts'
import { baseName, extraPackages, impliedLanguages, wantedPackages } from './packages.ts'
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
  const services = wantedServices(detected.services, data?.services ?? [], file?.name ?? '')
  const { packages, odd } = wantedPackages(input, findings)
  const needed = packages.filter(({ isOptional }) => !isOptional)
  const tools = wantedTools(findings)
  const { resolvedBase, choice } = await chooseBase(input, {
    languages,
    services,
    packages: needed,
    tools: tools.wanted,
  })
  const refused: UnavailableItem[] = []
  const kept = <T>(key: string, wish: Choice, work: () => Promise<T> | T): Promise<T[]> =>
    keptOrRefused(refused, key, wish, work)
  const found = (
    await Promise.all(
      languages.map((one) =>
        kept(`languages.${one.language}`, one.wish, () => planLanguage(input, one, resolvedBase)),
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
  const servicePlans = running.filter((one): one is ServicePlan => !('missing' in one))
  checkPorts(servicePlans)
  const kind = baseKind(resolvedBase.base)
  const user = userOf(data, kind.system.user)
  const workspace = `${homeOf(user)}/${input.name}`
  const toolPlans = planTools(tools.wanted, resolvedBase, machine)
  const there = toolPlans.filter(({ from }) => kind.tools.packageManager !== undefined || from !== 'packages')
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
  const path = planSearchPath(found, toolPlans, findings, workspace)
  return {
    name: data?.environment.name ?? input.name,
    workspace,
    user,
    sudo: data?.environment.sudo ?? false,
    base: choice,
    resolvedBase,
    languages: found,
    refused,
    tools: toolPlans,
    packages: packages.map((one) => ({
      ...one,
      isThere: kind.tools.hasPackage(machine, one.name),
    })),
    extra: extraPackages(data),
    services: servicePlans,
    findings,
    setups,
    commands: planCommands(input, findings, detected),
    ports: planPorts(input, findings),
    variables: [
      ...homes(found, toolPlans),
      ...planVariables(input, findings, servicePlans, { workspace, user }),
    ],
    path: path.directories,
    presets: planPresets(input, findings, resolvedBase, { found, tools: toolPlans, setups: agent.setups }),
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
      ...lackingHere(resolvedBase, machine, needed, tools.wanted),
      ...path.refused,
      ...missingInputs(input, detected),
      ...kotlinNote(data),
    ],
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

const USER = /^[a-z_][a-z0-9_-]{0,31}$/

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
