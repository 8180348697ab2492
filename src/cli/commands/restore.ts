import {
  COPY_OPTIONS,
  createOptions,
  JSON_OPTION,
  NETWORK_OPTIONS,
  PROCESS_OPTIONS,
  variablesOf,
} from '../args/options.ts'
import type { Command } from '../command.ts'
import { networkOf } from '../network.ts'
import { placementOf } from '../placement.ts'
import { createSandbox } from './create.ts'

export const command: Command = {
  usage: 'agentpod restore [options] SNAPSHOT',
  examples: ['agentpod restore golden', 'agentpod restore --name again --timeout 2h golden'],
  options: { ...COPY_OPTIONS, ...NETWORK_OPTIONS, ...PROCESS_OPTIONS, ...JSON_OPTION },
  words: { min: 1, max: 1 },
  async run(ctx, parsed) {
    const { client, env, terminal } = ctx
    // A snapshot is on the provider that took it, whatever is usual here.
    const { isolation } = await placementOf(ctx, parsed)
    const asked = createOptions(parsed, variablesOf(parsed, env), { placement: { isolation } })
    const options = { ...asked, snapshot: parsed.word(0) }
    const sandbox = await createSandbox(
      await client(),
      options,
      terminal,
      await networkOf(ctx, parsed, undefined),
    )
    terminal.out(parsed.has('json') ? JSON.stringify(sandbox.info) : sandbox.id)
    return 0
  },
}
