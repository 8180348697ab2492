/** The provider of tests that name none: AGENTPOD_TEST_PROVIDER, or crun. What differs on it is here too. */
import type { AgentPod } from '../../src/client/client.ts'
import type { Sandbox } from '../../src/client/sandbox.ts'

export const PROVIDERS = ['crun', 'gvisor', 'qemu', 'docker'] as const
export type ProviderName = (typeof PROVIDERS)[number]

export const CHOSEN = chosen(process.env['AGENTPOD_TEST_PROVIDER'] || 'crun')
export const ON_GVISOR = CHOSEN === 'gvisor'
export const ON_QEMU = CHOSEN === 'qemu'
export const ON_DOCKER = CHOSEN === 'docker'

/** The others have the base debian, which has its own files where `host` shows those of the machine. */
export const hasHostBase = (name: ProviderName): boolean => name === 'crun' || name === 'gvisor'
export const HAS_HOST_BASE = hasHostBase(CHOSEN)

/** Docker gives containers `no-new-privileges`, so an ordinary user cannot become root in them. */
export const HAS_SUDO = !ON_DOCKER

/** The reason to skip a test on a provider: what differs there, and why that is no way out. */
export function differsOn(reasons: Partial<Record<ProviderName, string>>): {
  readonly skip: string | false
} {
  return { skip: reasons[CHOSEN] ?? false }
}

/** To give or to take one, the host would have to read a disk that a machine has written. */
export const NO_ARCHIVES = differsOn({ qemu: 'machines give no archives and take none' })

/** A sandbox whose user may become root; where there is none, an ordinary one, whose root attacks as well. */
export function createWithSudo(client: AgentPod): Promise<Sandbox> {
  return client.create(HAS_SUDO ? { environment: { sudo: true } } : {})
}

function chosen(name: string): ProviderName {
  const found = PROVIDERS.find((one) => one === name)
  if (!found) throw new Error(`AGENTPOD_TEST_PROVIDER is ${name}, not one of ${PROVIDERS.join(', ')}`)
  return found
}
