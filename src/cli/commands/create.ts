import type { AgentPod } from '../../client/client.ts'
import type { CreateOptions, Sandbox } from '../../client/sandbox.ts'
import { createOptions, JSON_OPTION, PROCESS_OPTIONS, SANDBOX_OPTIONS, variablesOf } from '../args/options.ts'
import type { Command } from '../command.ts'
import type { Terminal } from '../output/terminal.ts'

export const command: Command = {
  usage: 'agentpod create [options]',
  examples: [
    'agentpod create --name box',
    'agentpod create --base debian --memory 1g --timeout 15m',
    'agentpod create --label team=web -e NODE_ENV=test',
    'agentpod create --timeout 30m --when-over pause',
    'agentpod create --from golden',
  ],
  options: { ...SANDBOX_OPTIONS, ...PROCESS_OPTIONS, ...JSON_OPTION },
  words: { min: 0, max: 0 },
  async run({ client, env, terminal }, parsed) {
    const sandbox = await createSandbox(
      await client(),
      createOptions(parsed, variablesOf(parsed, env)),
      terminal,
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
): Promise<Sandbox> {
  const base = options.environment?.base
  if (base !== undefined && base !== 'host') await pod.prepare(base, (line) => terminal.progress(line))
  const sandbox = await pod.create(options)
  terminal.clearProgress()
  return sandbox
}
