import { invalid, isAgentPodError } from '../../core/error.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Command } from '../command.ts'
import { currentContext } from '../server/contexts.ts'
import { serverLeft } from '../server/wait-for-shutdown.ts'

export const command: Command = {
  usage: 'agentpod server [status | stop]',
  examples: ['agentpod server', 'agentpod server stop'],
  options: JSON_OPTION,
  words: { min: 0, max: 1 },
  async run({ client, terminal, home, env }, parsed) {
    const verb = parsed.words[0] ?? 'status'
    if (verb !== 'status' && verb !== 'stop')
      throw invalid('words.extra', `unknown: server ${verb}`, command.usage)
    const pod = await client({ start: false })
    const say = (state: object, line: string): number => {
      terminal.out(parsed.has('json') ? JSON.stringify(state) : line)
      return 0
    }
    try {
      const info = await pod.server()
      if (verb === 'status') {
        return say(
          { running: true, ...info },
          `server ${info.version}${info.build ? ` (build ${info.build})` : ''}, pid ${info.pid}, ${info.living} sandboxes`,
        )
      }
      await pod.stopServer()
      // The server answers before it has closed its files, and the caller may want to move them.
      if (!currentContext(home, env)) (await serverLeft(home)).release()
      const left = info.living > 0 ? `; ${info.living} sandboxes keep running until their time is up` : ''
      return say({ running: false, living: info.living }, `stopped${left}`)
    } catch (error) {
      if (!isAgentPodError(error, 'unavailable')) throw error
      return say({ running: false }, 'no server is running')
    }
  },
}
