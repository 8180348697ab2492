/** Creates a sandbox with progress: a base that is not ready yet may take a minute. */
import { baseKind } from '../../bases/bases.ts'
import type { AgentPod } from '../../client/client.ts'
import type { CreateOptions, Sandbox } from '../../client/sandbox.ts'
import { DEFAULT_BASE } from '../../core/environment.ts'
import type { Person } from '../ask.ts'
import type { PreparedNetwork } from '../network/prepare-network.ts'
import { interruptibly, makeInterruptibly } from '../on-interrupt.ts'

export async function createWithProgress(
  pod: AgentPod,
  person: Person,
  options: CreateOptions,
  network?: PreparedNetwork | undefined,
): Promise<Sandbox> {
  const { base, image } = options.environment ?? {}
  const { provider, snapshot } = options
  const isFresh = snapshot === undefined && options.environment?.digest === undefined
  // Without a base it is the provider's choice, which only the server knows.
  if (isFresh && (base === undefined ? provider !== undefined : !baseKind(base).isReadyAtOnce)) {
    using progress = person.progress({})
    await pod.prepare(base ?? DEFAULT_BASE, (line) => progress.status(line), { image, provider })
  }
  const sandbox = await makeInterruptibly(() => pod.create(network ? withNetwork(options, network) : options))
  const { files = [] } = network ?? {}
  await interruptibly(
    () => sandbox.destroy(),
    async () => {
      for (const { path, text } of files) await sandbox.writeFile(path, Buffer.from(text))
    },
  )
  return sandbox
}

/** The user's own variables go before those of presets. */
function withNetwork(options: CreateOptions, { network, variables }: PreparedNetwork): CreateOptions {
  const environment = options.environment ?? {}
  return {
    ...options,
    network,
    environment: { ...environment, variables: { ...variables, ...environment.variables } },
  }
}
