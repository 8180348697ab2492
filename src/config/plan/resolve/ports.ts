/** Ports that a project listens on. */
import { invalid } from '../../../core/error.ts'
import type { Finding } from '../../detect/finding.ts'
import type { PortPlan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import type { ServicePlan } from '../services/service-plan.ts'

export function checkPorts(services: readonly ServicePlan[]): void {
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

export function planPorts(input: PlanInput, findings: readonly Finding[]): PortPlan[] {
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
