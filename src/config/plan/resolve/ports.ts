/** Ports that a project listens on. */
import { invalid } from '../../../core/error.ts'
import type { Finding } from '../../detect/finding.ts'
import type { FoundPort } from '../../detect/formats/format-file.ts'
import type { PortPlan } from '../plan.ts'
import type { PlanInput } from '../plan-input.ts'
import type { ServicePlan } from '../services/service-plan.ts'
import { strongest } from './by-rank.ts'

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

const NO_FILE = { file: '', said: 'a port' }

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
  const named: readonly FoundPort[] = [...findings.flatMap(({ ports = [] }) => ports), ...detected.ports]
  const found = named.map(({ port, label, evidence }) => ({ port, label, isPublic: false, evidence }))
  const service = input.devcontainer?.base.group?.compose.service
  const published = (service?.ports ?? []).map(({ target, line }) => ({
    port: target,
    label: service?.name,
    isPublic: false,
    evidence: { file: service?.file ?? '', line, said: `services.${service?.name}.ports` },
  }))
  const container = (input.devcontainer?.plan.ports ?? []).flatMap(({ port, host, attributes }) =>
    host === undefined || host === service?.name
      ? [
          {
            port,
            label: attributes.label,
            isPublic: false,
            evidence: input.devcontainer?.evidence(['forwardPorts'], `forwardPorts ${port}`) ?? NO_FILE,
          },
        ]
      : [],
  )
  const isPort = ({ port }: Pick<PortPlan, 'port'>): boolean =>
    Number.isInteger(port) && port > 0 && port < 65_536
  return strongest(
    [...found, ...published, ...container, ...asked].filter(isPort),
    ({ port }) => port,
    ({ label, port }) => label ?? String(port),
  )
}
