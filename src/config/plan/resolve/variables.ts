/** Environment variables of a plan. */

import type { Finding } from '../../detect/finding.ts'
import { replaceContainerVariables } from '../../devcontainer/variables.ts'
import type { ListedVersion } from '../languages/registry-versions.ts'
import { satisfies } from '../languages/version.ts'
import type { LanguagePlan, Plan, ToolPlan, VariablePlan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import { addressInSandbox, type ServicePlan, serviceVariables } from '../services/service-plan.ts'
import { strongest } from './by-rank.ts'
import { SYSTEM, toolchainDirectories } from './search-path.ts'
import { NPM_TOOLS } from './tools.ts'
import { withWorkspace } from './workspace-path.ts'

/**
 * Variables with the directories of toolchains: native modules need Node's headers, which would otherwise be
 * downloaded from another host, and Maven prefers JAVA_HOME to the PATH.
 */
export function homes(languages: readonly LanguagePlan[], tools: readonly ToolPlan[]): VariablePlan[] {
  return languages.flatMap(({ language, source }): VariablePlan[] => {
    const isNode = language === 'node' && source.kind === 'npm'
    const isTold = isNode || (language === 'java' && source.kind === 'there')
    const [bin = ''] = toolchainDirectories(language, source)
    if (!isTold || !bin.endsWith('/bin') || SYSTEM.includes(bin)) return []
    const names = isNode ? headersVariables(source.npm, tools) : ['JAVA_HOME']
    const evidence = { file: '', said: `where ${language} is` }
    return names.map((name) => ({ name, value: bin.slice(0, -4), evidence, beat: [] }))
  })
}

/**
 * npm 11 warns about unknown settings at every call, and its node-gyp reads another variable. Other package
 * managers may have an older node-gyp, and do not warn.
 */
function headersVariables(npm: ListedVersion | undefined, tools: readonly ToolPlan[]): readonly string[] {
  if (npm === undefined || !satisfies('tool', npm.version, '>=11')) return ['npm_config_nodedir']
  const hasOther = tools.some(({ name }) => NPM_TOOLS.includes(name))
  return ['npm_package_config_node_gyp_nodedir', ...(hasOther ? ['npm_config_nodedir'] : [])]
}

export function planVariables(
  input: PlanInput,
  findings: readonly Finding[],
  services: readonly ServicePlan[],
  { workspace, user }: Pick<Plan, 'workspace' | 'user'>,
): { readonly set: readonly VariablePlan[]; readonly unset: Plan['unset'] } {
  const { file, detected } = input
  // Among sources of one rank, the first goes before the others.
  const all: SaidVariable[] = [
    ...Object.entries(file?.data.environment.variables ?? {}).map(([name, value]) => ({
      name,
      value,
      evidence: {
        file: file?.name ?? '',
        line: file?.lineOf(['environment', 'variables', name]),
        said: `${name} = ...`,
      },
    })),
    ...containerVariables(input),
    ...detected.formats.flatMap(({ variables }) =>
      variables.map((one) => ({ ...one, value: addressInSandbox(one.value, services, user) ?? one.value })),
    ),
    ...detected.variables.flatMap(({ name, value, evidence }) => {
      const here = addressInSandbox(value, services, user)
      return here === undefined ? [] : [{ name, value: here, evidence }]
    }),
    ...findings.flatMap(({ variables = {}, evidence }) =>
      Object.entries(variables).map(([name, value]) => ({
        name,
        value: withWorkspace(value, workspace),
        evidence,
      })),
    ),
    ...services.flatMap((service) =>
      Object.entries(serviceVariables(service, user)).map(([name, value]) => ({
        name,
        value,
        evidence: { file: '', said: `the service ${service.name}` },
      })),
    ),
  ]
  const chosen = strongest(
    all.filter(isVariable),
    ({ name }) => name,
    ({ value, isUnset }) => (isUnset ? 'unset' : value),
  )
  return {
    set: chosen.filter(({ isUnset }) => !isUnset),
    unset: chosen.filter(({ isUnset }) => isUnset).map(({ name, evidence }) => ({ name, evidence })),
  }
}

interface SaidVariable extends Omit<VariablePlan, 'beat'> {
  /** Set by a source that takes the variable away. */
  readonly isUnset?: boolean | undefined
}

/** Of devcontainer.json: those of processes go before those of the container. */
function containerVariables({ devcontainer }: PlanInput): SaidVariable[] {
  if (!devcontainer) return []
  const { plan, env, file, variables, evidence } = devcontainer
  const remote = Object.entries(plan.remoteEnv).map(([name, text]) => ({
    name,
    value: text === null ? '' : replaceContainerVariables(text, env, file),
    isUnset: text === null,
    rank: 'devcontainer' as const,
    evidence: evidence(['remoteEnv', name], `remoteEnv ${name}`),
  }))
  const own = variables.toReversed().map((one) => ({ ...one, rank: 'devcontainer' as const }))
  const first = new Map<string, SaidVariable>([...own.toReversed(), ...remote].map((one) => [one.name, one]))
  return [...first.values()]
}

/** SECURITY: CF-02. Variables that no process can have, and those reserved for AgentPod, are left out. */
function isVariable({ name, value }: Pick<VariablePlan, 'name' | 'value'>): boolean {
  return (
    /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) &&
    !/^AGENTPOD_/i.test(name) &&
    value.length <= 32 * 1024 &&
    !value.includes('\0')
  )
}
