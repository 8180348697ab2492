/** System packages and extra packages that a plan installs. */
import { DEBIAN_PACKAGE } from '../../../bases/debian-packages.ts'
import type { Finding, Language } from '../../detect/finding.ts'
import type { Evidence } from '../../evidence.ts'
import type { ProjectData } from '../../project/data.ts'
import { printable } from '../../toml/problem.ts'
import { namedBase } from '../named-bases.ts'
import type { PackagePlan, Plan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import { NPM_TOOLS, PIP_TOOLS } from './tools.ts'

/** Languages that tools need: Poetry needs Python, pnpm needs Node. */
export function impliedLanguages(input: PlanInput, findings: readonly Finding[]): Language[] {
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

/**
 * SECURITY: CF-02. A package from a workflow or a file for agents must have a valid Debian name; others are
 * left out with a note.
 */
export function wantedPackages(
  input: PlanInput,
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
  const isNamed = new Set(asked.map(({ name }) => name))
  const named = (namedBase(baseName(input))?.packages ?? []).map((name) => ({
    name,
    evidence: { file: '', said: `part of the base ${input.base ?? file?.data.environment.base}` },
  }))
  const all = [...asked, ...named, ...findings.flatMap(({ packages }) => packages), ...detected.packages]
  const distinctOnes = [...new Map(all.toReversed().map((one) => [one.name, one])).values()].toReversed()
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

export function extraPackages(data: ProjectData | undefined): Plan['extra'] {
  const { npm = [], pip = [], cargo = [], go = [] } = data?.environment.packages ?? {}
  return { npm, pip, cargo, go }
}

/** The base that the command line or agentpod.toml names; empty where neither does. */
export function baseName({ base, file }: PlanInput): string {
  return base ?? file?.data.environment.base ?? ''
}
