import { kindOf } from '../../bases/bases.ts'
import type { AgentPod } from '../../client/client.ts'
import type { CreateOptions, Sandbox } from '../../client/sandbox.ts'
import { DEFAULT_BASE } from '../../core/environment.ts'
import {
  createOptions,
  JSON_OPTION,
  NETWORK_OPTIONS,
  PROCESS_OPTIONS,
  SANDBOX_OPTIONS,
  variablesOf,
} from '../args/options.ts'
import { checkNetwork } from '../args/refuse.ts'
import type { Command } from '../command.ts'
import { networkOf } from '../network.ts'
import type { Terminal } from '../output/terminal.ts'
import { placementOf } from '../placement.ts'
import type { PreparedNetwork } from '../prepare-network.ts'

export const command: Command = {
  usage: 'agentpod create [options]',
  examples: [
    'agentpod create --name box',
    'agentpod create --base debian --memory 1g --timeout 15m',
    'agentpod create --provider docker --image debian:12',
    'agentpod create --label team=web -e NODE_ENV=test',
    'agentpod create --timeout 30m --when-over pause',
    'agentpod create --from golden',
    'agentpod create --preset npm --allow api.example.com --secret OPENAI_API_KEY',
  ],
  options: { ...SANDBOX_OPTIONS, ...NETWORK_OPTIONS, ...PROCESS_OPTIONS, ...JSON_OPTION },
  words: { min: 0, max: 0 },
  async run(ctx, parsed) {
    checkNetwork(parsed)
    const { client, env, terminal } = ctx
    const sandbox = await createSandbox(
      await client(),
      createOptions(parsed, variablesOf(parsed, env), { placement: await placementOf(ctx, parsed) }),
      terminal,
      await networkOf(ctx, parsed, undefined),
    )
    terminal.out(parsed.has('json') ? JSON.stringify(sandbox.info) : sandbox.id)
    return 0
  },
}

/** Creates with progress: a base that is not built yet takes a minute, and says so. */
export async function createSandbox(
  pod: AgentPod,
  options: CreateOptions,
  terminal: Terminal,
  prepared?: PreparedNetwork | undefined,
): Promise<Sandbox> {
  const { base, image } = options.environment ?? {}
  const { provider, snapshot } = options
  const isFresh = snapshot === undefined && options.environment?.digest === undefined
  // Which base a provider begins with is for the server to say.
  if (isFresh && (base === undefined ? provider !== undefined : !kindOf(base).isReadyAtOnce))
    await pod.prepare(base ?? DEFAULT_BASE, (line) => terminal.progress(line), { image, provider })
  const sandbox = await pod.create(prepared ? withNetwork(options, prepared) : options)
  for (const { path, text } of prepared?.files ?? []) await sandbox.writeFile(path, Buffer.from(text))
  terminal.clearProgress()
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
