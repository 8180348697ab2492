import type { Sandbox } from '../../client/sandbox.ts'
import { addonsIn, addonTitle } from '../../config/plan/addons/addon-plan.ts'
import { ADDON_NAMES, type AddonName } from '../../config/project/addons-table.ts'
import { invalid } from '../../core/error.ts'
import { JSON_OPTION } from '../args/options.ts'
import { parseNumber } from '../args/values.ts'
import type { Command, CommandContext } from '../command.ts'
import { forwardPort } from '../sandbox/forward-port.ts'
import { type ChosenSandbox, namedOrOwn } from '../sandbox/project-sandbox.ts'

export const command: Command = {
  usage: 'agentpod port [NAME] [PORT | ADDON] [--forward LOCAL]',
  examples: [
    'agentpod port box 3000',
    'agentpod port box 5432 --forward 15432',
    'agentpod port 3000                of the sandbox of this project',
    'agentpod port code-server         an addon of this project; without a word all of them',
  ],
  options: {
    forward: {
      value: 'LOCAL',
      help: 'forward this port of 127.0.0.1 until interrupted (0: any free port)',
    },
    ...JSON_OPTION,
  },
  words: { min: 0, max: 2 },
  async run(ctx, parsed) {
    const isJson = parsed.has('json')
    const { name, which } = wordsOf(parsed.words)
    const chosen = await namedOrOwn(ctx, name, { usage: 'agentpod port NAME PORT', isJson })
    const ports = portsOf(chosen.sandbox, which)
    const [first] = ports
    const local = parsed.value('forward')
    if (local !== undefined && first) {
      if (ports.length > 1) throw invalid('port.several', 'name the port to forward', command.usage)
      return forward(ctx, chosen.sandbox, first.port, portNumber(local, 'forward', 0))
    }
    for (const one of ports) await show(ctx, chosen, one, isJson)
    return 0
  },
}

interface ShownPort {
  readonly port: number
  readonly addon?: AddonName | undefined
}

/** One word is a port or an addon if it looks like one, and a name otherwise. */
function wordsOf([first, second]: readonly string[]): {
  name: string | undefined
  which: string | undefined
} {
  if (first === undefined || second !== undefined) return { name: first, which: second }
  const isWhich = /^[0-9]+$/.test(first) || ADDON_NAMES.some((addon) => addon === first)
  return isWhich ? { name: undefined, which: first } : { name: first, which: undefined }
}

function portsOf({ info }: Sandbox, which: string | undefined): ShownPort[] {
  const addons = addonsIn(info.labels).map(({ name, port }) => ({ addon: name, port }))
  const named = ADDON_NAMES.find((name) => name === which)
  if (which !== undefined && named === undefined) return [{ port: portNumber(which, 'PORT', 1) }]
  const wanted = named === undefined ? addons : addons.filter(({ addon }) => addon === named)
  if (wanted.length > 0) return wanted
  const what = named === undefined ? 'no addon' : `no addon ${named}`
  throw invalid('port.missing', `name a port: this sandbox has ${what}`, command.usage)
}

async function show(
  ctx: CommandContext,
  { sandbox, taken }: ChosenSandbox,
  { port, addon }: ShownPort,
  isJson: boolean,
): Promise<void> {
  const { terminal } = ctx
  const { url, openUrl } = await (await ctx.client()).preview(sandbox.id, port)
  if (isJson) return terminal.out(JSON.stringify({ ...taken, ...(addon && { addon }), url, openUrl }))
  terminal.out(`${openUrl ?? url}${addon ? `  ${addonTitle(addon)}` : ''}`)
  if (openUrl) terminal.say('this address works once, within a minute; then a cookie lets the browser in')
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
