import { createFor } from '../../workbench/copy/open-copy.ts'
import {
  JSON_OPTION,
  NETWORK_OPTIONS,
  PROCESS_OPTIONS,
  SANDBOX_OPTIONS,
  sandboxRequest,
  variableOptions,
} from '../args/options.ts'
import { checkNetwork } from '../args/refuse.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod create [options]',
  examples: [
    'agentpod create --name box',
    'agentpod create --base debian --memory 1g --timeout 15m',
    'agentpod create --image debian:12',
    'agentpod create --label team=web -e NODE_ENV=test',
    'agentpod create --timeout 30m --when-over pause',
    'agentpod create --from golden',
    'agentpod create --volume data:/data --volume tools:/opt/tools:ro',
    'agentpod create --preset npm --allow api.example.com --secret OPENAI_API_KEY',
  ],
  options: { ...SANDBOX_OPTIONS, ...NETWORK_OPTIONS, ...PROCESS_OPTIONS, ...JSON_OPTION },
  words: { min: 0, max: 0 },
  async run(ctx, parsed) {
    checkNetwork(parsed)
    const { terminal } = ctx
    const request = { ...sandboxRequest(parsed, variableOptions(parsed, ctx.env)), isKept: true }
    const { sandbox } = await createFor(ctx, request, undefined, undefined)
    terminal.out(parsed.has('json') ? JSON.stringify(sandbox.info) : sandbox.id)
    return 0
  },
}
