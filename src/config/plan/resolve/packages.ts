/** System packages and extra packages that a plan installs. */
import { DEBIAN_PACKAGE } from '../../../bases/debian-packages.ts'
import type { Finding, Language } from '../../detect/finding.ts'
import type { Evidence } from '../../evidence.ts'
import { printable } from '../../toml/problem.ts'
import { addonPackages, type WantedAddon } from '../addons/addon-plan.ts'
import { namedBase } from '../named-bases.ts'
import type { PackagePlan, Plan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import { strongest } from './by-rank.ts'
import { NPM_TOOLS, PIP_TOOLS } from './tools.ts'

/** Languages that other files name, and those that tools need: Poetry needs Python, pnpm needs Node. */
export function impliedLanguages(input: PlanInput, findings: readonly Finding[]): Language[] {
  const tools = findings.flatMap((finding) => finding.tools.map(({ name }) => name))
  const extra = extraPackages(input)
  const named = input.detected.formats.flatMap(({ versions }) => versions.map(({ language }) => language))
  return [
    ...named,
    ...(tools.some((name) => NPM_TOOLS.includes(name)) || extra.npm.length > 0 || tools.includes('node')
      ? (['node'] as const)
      : []),
    ...(tools.some((name) => PIP_TOOLS.includes(name)) || extra.pip.length > 0 ? (['python'] as const) : []),
    ...(extra.cargo.length > 0 ? (['rust'] as const) : []),
    ...(extra.go.length > 0 ? (['go'] as const) : []),
  ]
}

/**
 * SECURITY: CF-02. A package from a workflow or a file for agents must have a valid Debian name; others are
 * left out with a note.
 */
export function wantedPackages(
  input: PlanInput,
  findings: readonly Finding[],
  addons: readonly WantedAddon[] = [],
): { readonly packages: readonly Omit<PackagePlan, 'isThere'>[]; readonly odd: readonly string[] } {
  const { file, detected } = input
  const own = (file?.data.environment.packages.apt ?? []).map((name) => ({
    name,
    evidence: {
      file: file?.name ?? '',
      line: file?.lineOf(['environment', 'packages', 'apt']),
      said: `apt = ["${name}"]`,
    },
  }))
  const asked = [...own, ...addonPackages(addons)]
  const isNamed = new Set(asked.map(({ name }) => name))
  const named = (namedBase(baseName(input))?.packages ?? []).map((name) => ({
    name,
    evidence: { file: '', said: `part of the base ${input.base ?? file?.data.environment.base}` },
  }))
  const all = [...asked, ...named, ...findings.flatMap(({ packages }) => packages), ...detected.packages]
  const distinctOnes = strongest(
    all,
    ({ name }) => name,
    ({ name }) => name,
  )
  return {
    packages: distinctOnes
      .filter(({ name }) => DEBIAN_PACKAGE.test(name))
      .map((one) => ({ ...one, isOptional: isOfWorkflow(one.evidence), isAsked: isNamed.has(one.name) })),
    odd: distinctOnes
      .filter(({ name }) => !DEBIAN_PACKAGE.test(name))
      .map(
        ({ name, evidence }) =>
          `left out: ${JSON.stringify(printable(name))}, which ${evidence.file} installs, is not the name of a package`,
      ),
  }
}

/** Setup steps for agents are meant for environments like ours; other workflows for any CI system. */
function isOfWorkflow({ file }: Evidence): boolean {
  return file.startsWith('.github/workflows/') && !/copilot-setup-steps\.ya?ml$/.test(file)
}

/** Packages that files of other platforms name beyond those of agentpod.toml, each once. */
export function extraFrom({ file, detected }: PlanInput): Plan['extraFrom'] {
  const asked = file?.data.environment.packages
  const found = detected.formats.flatMap(({ extra }) => extra)
  const seen = new Set<string>()
  return found.filter(({ manager, name }) => {
    const key = `${manager} ${plainName(name)}`
    const isAsked = asked?.[manager].some((one) => plainName(one) === plainName(name)) ?? false
    return isAsked || seen.has(key) ? false : seen.add(key)
  })
}

/** Without a version. */
function plainName(name: string): string {
  return /^@?[^@=<>~!]+/.exec(name)?.[0] ?? name
}

export function extraPackages(input: PlanInput): Plan['extra'] {
  const { npm = [], pip = [], cargo = [], go = [], nix = [] } = input.file?.data.environment.packages ?? {}
  const found = extraFrom(input)
  const of = (manager: keyof Plan['extra'], asked: readonly string[]): readonly string[] => [
    ...asked,
    ...found.flatMap((one) => (one.manager === manager ? [one.name] : [])),
  ]
  return {
    npm: of('npm', npm),
    pip: of('pip', pip),
    cargo: of('cargo', cargo),
    go: of('go', go),
    nix: of('nix', nix),
  }
}

/** The base that the command line or agentpod.toml names; empty where neither does. */
export function baseName({ base, file }: PlanInput): string {
  return base ?? file?.data.environment.base ?? ''
}
