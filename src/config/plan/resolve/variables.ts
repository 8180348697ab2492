/** Environment variables of a plan. */
import type { Finding } from '../../detect/finding.ts'
import type { ListedVersion } from '../languages/registry-versions.ts'
import { satisfies } from '../languages/version.ts'
import type { LanguagePlan, Plan, ToolPlan, VariablePlan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import { addressInSandbox, type ServicePlan, serviceVariables } from '../services/service-plan.ts'
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
    return names.map((name) => ({ name, value: bin.slice(0, -4), evidence }))
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
): VariablePlan[] {
  const { file, detected } = input
  const all: VariablePlan[] = [
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
    ...detected.variables.flatMap(({ name, value, evidence }) => {
      const here = addressInSandbox(value, services, user)
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

/** SECURITY: CF-02. Variables that no process can have, and those reserved for AgentPod, are left out. */
function isVariable({ name, value }: VariablePlan): boolean {
  return (
    /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) &&
    !/^AGENTPOD_/i.test(name) &&
    value.length <= 32 * 1024 &&
    !value.includes('\0')
  )
}
