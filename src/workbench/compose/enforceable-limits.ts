/** Limits of a compose file on a machine that cannot enforce them. */
import type { ComposeProject, ComposeService } from '../../config/compose/model.ts'
import { placeText } from '../../config/evidence.ts'
import type { Workbench } from '../workbench.ts'

/**
 * Limits that a person asks for are enforced or refused. Those of a compose file are left out with a note: it
 * was written for another machine, and people did not ask for them here.
 */
export async function enforceableLimits(
  bench: Workbench,
  compose: ComposeProject,
  provider: string | undefined,
): Promise<ComposeProject> {
  const limited = compose.services.filter(hasLimits)
  const [first] = limited
  if (!first) return compose
  const providers = await (await bench.client()).providers()
  const used = providers.find(({ name, isDefault }) =>
    provider === undefined ? isDefault : name === provider,
  )
  if (!used?.capabilities || used.capabilities.limits === 'enforced') return compose
  bench.person.notice({
    kind: 'note',
    text: `${placeText(first)}: limits on memory, processors and processes of ${limited.map(({ name }) => name).join(', ')} are left out: they do not hold here; \`agentpod doctor\` says why`,
  })
  const services = compose.services.map((one) => ({
    ...one,
    cpus: undefined,
    memoryMib: undefined,
    pids: undefined,
  }))
  return { ...compose, services }
}

function hasLimits({ cpus, memoryMib, pids }: ComposeService): boolean {
  return [cpus, memoryMib, pids].some((one) => one !== undefined)
}
