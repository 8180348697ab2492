import { createWithProgress } from '../../workbench/copy/create-with-progress.ts'
import { placementOf } from '../../workbench/environment/placement.ts'
import { bareOptions } from '../../workbench/environment/sandbox-request.ts'
import { loadNetwork } from '../../workbench/network/load-network.ts'
import {
  COPY_OPTIONS,
  JSON_OPTION,
  NETWORK_OPTIONS,
  PROCESS_OPTIONS,
  sandboxRequest,
  variableOptions,
} from '../args/options.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod restore [options] SNAPSHOT',
  examples: [
    'agentpod restore golden                        with its processes, if it has their memory',
    'agentpod restore --files golden                with its files alone',
    'agentpod restore --name again --timeout 2h golden',
  ],
  options: {
    files: { help: 'start from the files alone, also if the snapshot has memory' },
    ...COPY_OPTIONS,
    ...NETWORK_OPTIONS,
    ...PROCESS_OPTIONS,
    ...JSON_OPTION,
  },
  words: { min: 1, max: 1 },
  async run(ctx, parsed) {
    const { terminal } = ctx
    const request = sandboxRequest(parsed, variableOptions(parsed, ctx.env))
    // A snapshot is on the provider that took it, whatever the default provider is.
    const { isolation, docker } = await placementOf(ctx, request.placement)
    const options = {
      isolation,
      docker,
      ...bareOptions(request),
      snapshot: parsed.word(0),
      ...(parsed.has('files') && { memory: false }),
    }
    const network = await loadNetwork(ctx, request.network, {})
    const sandbox = await createWithProgress(await ctx.client(), ctx.person, options, network)
    terminal.out(parsed.has('json') ? JSON.stringify(sandbox.info) : sandbox.id)
    return 0
  },
}
