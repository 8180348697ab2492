/** Plans the addons: programs for a person in the browser, built as layers and run as services. */
import type { Machine, ResolvedBase } from '../../../bases/base-kind.ts'
import { baseKind } from '../../../bases/bases.ts'
import type { Service } from '../../../core/environment.ts'
import { AgentPodError } from '../../../core/error.ts'
import type { Choice, Evidence } from '../../evidence.ts'
import { ADDON_NAMES, type AddonName } from '../../project/addons-table.ts'
import { KNOWN_ADDONS } from './addon-catalog.ts'

export interface AddonPlan {
  readonly name: AddonName
  readonly port: number
  /** Node's name of the architecture. */
  readonly arch: string
  readonly choice: Choice
}

export interface WantedAddon {
  readonly name: AddonName
  readonly port: number
  readonly choice: Choice
}

interface AddonsFile {
  readonly name: string
  readonly data: { readonly addons: readonly { readonly name: AddonName; readonly port: number }[] }
  lineOf(path: readonly string[]): number | undefined
}

export function wantedAddons({ file }: { readonly file?: AddonsFile | undefined }): WantedAddon[] {
  return (file?.data.addons ?? []).map(({ name, port }) => {
    const evidence = {
      file: file?.name ?? '',
      line: file?.lineOf(['addons', name]),
      said: `[addons] ${name}`,
    }
    return { name, port, choice: { value: `port ${port}`, rank: 'agentpod.toml', evidence, beat: [] } }
  })
}

/** The system packages of the addons, as if the file named them. */
export function addonPackages(addons: readonly WantedAddon[]): { name: string; evidence: Evidence }[] {
  return addons.flatMap(({ name, choice: { evidence } }) =>
    KNOWN_ADDONS[name].packages.map((one) => ({ name: one, evidence })),
  )
}

/** Throws on a base where nothing can be installed. */
export function planAddon(resolvedBase: ResolvedBase, { arch }: Machine, wanted: WantedAddon): AddonPlan {
  const { tools, texts } = baseKind(resolvedBase.base)
  if (tools.packageManager !== undefined || tools.ownPackageManager !== undefined) return { ...wanted, arch }
  const { file, line } = wanted.choice.evidence
  throw new AgentPodError({
    code: 'failed_precondition',
    reason: 'addon.unavailable',
    message: `${file}:${line ?? 1}: the addon ${wanted.name} cannot be installed ${texts.locationLabel(resolvedBase)}`,
    hint: 'set base = "debian" under [environment], or leave the addon out',
  })
}

const READY_MS = 120_000

export function addonService(
  { name, port }: AddonPlan,
  { user, workspace }: { readonly user: string; readonly workspace: string },
): Service {
  const { run, needsProject } = KNOWN_ADDONS[name]
  return {
    name,
    user,
    run: run({ port, user, workspace }),
    workdir: '/',
    variables: {},
    ready: { port, timeoutMs: READY_MS },
    needsProject,
    stopSignal: 'SIGTERM',
    stopMs: 10_000,
  }
}

/** Variables by which programs find the addons, such as the display. */
export function addonVariables(
  addons: readonly AddonPlan[],
): { name: string; value: string; evidence: Evidence; beat: [] }[] {
  return addons.flatMap(({ name, choice: { evidence } }) =>
    Object.entries(KNOWN_ADDONS[name].variables).map(([variable, value]) => ({
      name: variable,
      value,
      evidence,
      beat: [],
    })),
  )
}

/** The label that says which addons a sandbox has, and on which ports: `code-server:13337,gui:6080`. */
export const ADDONS_LABEL = 'agentpod/addons'

export function addonsLabel(addons: readonly Pick<AddonPlan, 'name' | 'port'>[]): Record<string, string> {
  if (addons.length === 0) return {}
  return { [ADDONS_LABEL]: addons.map(({ name, port }) => `${name}:${port}`).join() }
}

/** The addons that a sandbox's labels name. Anyone may set labels, so a malformed one names none. */
export function addonsIn(labels: Readonly<Record<string, string>>): { name: AddonName; port: number }[] {
  return (labels[ADDONS_LABEL] ?? '').split(',').flatMap((one) => {
    const [, word, port] = /^([a-z-]{1,32}):([0-9]{1,5})$/.exec(one) ?? []
    const name = ADDON_NAMES.find((known) => known === word)
    return name === undefined || Number(port) > 65_535 ? [] : [{ name, port: Number(port) }]
  })
}

/** Whether its step needs npm's registry. */
export function usesNpm(name: AddonName): boolean {
  return KNOWN_ADDONS[name].usesNpm
}

export function addonTitle(name: AddonName): string {
  return KNOWN_ADDONS[name].label
}
