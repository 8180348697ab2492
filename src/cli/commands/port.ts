import type { Sandbox } from '../../client/sandbox.ts'
import { invalid } from '../../core/error.ts'
import { JSON_OPTION } from '../args/options.ts'
import { parseNumber } from '../args/values.ts'
import type { Command, CommandContext } from '../command.ts'
import { forwardPort } from '../sandbox/forward-port.ts'

export const command: Command = {
  usage: 'agentpod port NAME PORT [--forward [LOCAL]]',
  examples: ['agentpod port box 3000', 'agentpod port box 5432 --forward 15432'],
  options: {
    forward: {
      value: 'LOCAL',
      help: 'forward this port of 127.0.0.1 until interrupted (0: any free port)',
    },
    ...JSON_OPTION,
  },
  words: { min: 2, max: 2 },
  async run(ctx, parsed) {
    const port = portNumber(parsed.word(1), 'PORT', 1)
    const pod = await ctx.client()
    const sandbox = await pod.get(parsed.word(0))
    const local = parsed.value('forward')
    if (local !== undefined) return forward(ctx, sandbox, port, portNumber(local, 'forward', 0))
    const { url, openUrl } = await pod.preview(sandbox.id, port)
    if (parsed.has('json')) {
      ctx.terminal.out(JSON.stringify({ url, openUrl }))
    } else {
      ctx.terminal.out(openUrl ?? url)
      if (openUrl)
        ctx.terminal.say('this address works once, within a minute; then a cookie lets the browser in')
    }
    return 0
  },
}

function portNumber(text: string, what: string, least: number): number {
  const port = parseNumber(text, what)
  if (Number.isInteger(port) && port >= least && port <= 65535) return port
  throw invalid('port.malformed', `a port is a number from ${least} to 65535, not ${JSON.stringify(text)}`)
}

/** Until interrupted. */
async function forward(
  { terminal }: CommandContext,
  sandbox: Sandbox,
  port: number,
  local: number,
): Promise<number> {
  using forwarded = await forwardPort(sandbox, port, local)
  terminal.out(`127.0.0.1:${forwarded.port} forwards to port ${port} of ${sandbox.info.name ?? sandbox.id}`)
  await new Promise((resolve) => process.once('SIGINT', resolve).once('SIGTERM', resolve))
  return 0
}
