import { isAgentPodError } from '../../core/error.ts'
import { VERSION } from '../../util/version.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'

export const command: Command = {
  usage: 'agentpod version [--json]',
  examples: ['agentpod version'],
  options: JSON_OPTION,
  words: { min: 0, max: 0 },
  async run({ client, terminal }, parsed) {
    const server = await serverVersion(await client({ start: false }))
    const versions = { agentpod: VERSION, node: process.versions.node, server }
    if (parsed.has('json')) terminal.out(JSON.stringify(versions))
    else terminal.out(`agentpod ${VERSION} (node ${versions.node}, server ${server ?? 'not running'})`)
    return 0
  },
}

async function serverVersion(pod: { server(): Promise<{ version: string }> }): Promise<string | null> {
  try {
    return (await pod.server()).version
  } catch (error) {
    if (isAgentPodError(error, 'unavailable')) return null
    throw error
  }
}
