import { AgentPodError } from '../../core/error.ts'
import { JSON_OPTION } from '../args/options.ts'
import { parseNumber } from '../args/values.ts'
import type { Command } from '../command.ts'
import { printable, table } from '../output/terminal.ts'

export const command: Command = {
  usage: 'agentpod logs [-f] [--process PID] NAME',
  examples: [
    'agentpod logs box',
    'agentpod logs -f --process 12 box',
    'agentpod logs --list box',
    'agentpod logs --events box',
  ],
  options: {
    follow: { short: 'f', help: 'go on until the process ends' },
    process: { short: 'p', value: 'PID', help: 'which process (default: the latest)' },
    list: { help: 'list the processes whose output is kept' },
    events: { help: 'what happened to the sandbox itself' },
    ...JSON_OPTION,
  },
  words: { min: 1, max: 1 },
  async run({ client, terminal }, parsed) {
    const sandbox = await (await client()).get(parsed.word(0))
    const isJson = parsed.has('json')
    if (parsed.has('events')) {
      const events = await sandbox.events()
      if (isJson) terminal.out(JSON.stringify(events))
      else
        for (const { at, type, data } of events)
          terminal.out(
            `${at}  ${type}  ${Object.keys(data).length > 0 ? printable(JSON.stringify(data)) : ''}`.trimEnd(),
          )
      return 0
    }
    const processes = await sandbox.processes()
    if (parsed.has('list')) {
      if (isJson) terminal.out(JSON.stringify(processes))
      else
        for (const line of table(
          processes.map((p) => [
            String(p.pid),
            p.endedAt ? `exit ${p.exitCode}` : 'running',
            printable(p.command.join(' ')).slice(0, 100),
          ]),
        ))
          terminal.out(line)
      return 0
    }
    const asked = parsed.value('process')
    const pid = asked === undefined ? processes.at(-1)?.pid : parseNumber(asked, 'process')
    if (pid === undefined) {
      throw new AgentPodError({
        code: 'not_found',
        reason: 'process.none',
        message: 'nothing has run in this sandbox',
        hint: '`agentpod exec` runs something',
      })
    }
    const isRunning = processes.some((p) => p.pid === pid && p.endedAt === undefined)
    const until = new AbortController()
    const child = sandbox.attach(pid, { signal: until.signal })
    // Without -f a running process is shown up to now: silence for a moment is the end of what is kept.
    const pause = (): NodeJS.Timeout | undefined =>
      isRunning && !parsed.has('follow') ? setTimeout(() => until.abort(), 200) : undefined
    let timer = pause()
    try {
      for await (const { stream, data } of child.output()) {
        clearTimeout(timer)
        ;(stream === 'stderr' ? terminal.stderr : terminal.stdout).write(data)
        timer = pause()
      }
    } catch (error) {
      if (!until.signal.aborted) throw error
    }
    return 0
  },
}
