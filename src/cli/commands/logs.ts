import type { ProcessInfo } from '../../client/sandbox.ts'
import { AgentPodError } from '../../core/error.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import { nearest } from '../../util/nearest.ts'
import { JSON_OPTION } from '../args/options.ts'
import type { Parsed } from '../args/parse.ts'
import { parseNumber } from '../args/values.ts'
import type { Command } from '../command.ts'
import { safeOutput } from '../output/safe-output.ts'
import { table } from '../output/terminal.ts'
import { namedOrOwn } from '../sandbox/project-sandbox.ts'
import { taggedService } from '../sandbox/service-tag.ts'

export const command: Command = {
  usage: 'agentpod logs [-f] [--process PID | --service SERVICE] [NAME]',
  examples: [
    'agentpod logs box',
    'agentpod logs -f --process 12 box',
    'agentpod logs -f --service postgres box',
    'agentpod logs --list box',
    'agentpod logs --events box',
    'agentpod logs -f --service web    of the sandbox of this project',
  ],
  options: {
    follow: { short: 'f', help: 'follow until the process ends' },
    process: { short: 'p', value: 'PID', help: 'which process (default: the latest)' },
    service: { value: 'SERVICE', help: 'a service of its environment, like postgres' },
    list: { help: 'list the processes whose output is kept' },
    events: { help: 'show the events of the sandbox itself' },
    raw: { help: 'print raw bytes, even to a terminal, which then obeys control sequences' },
    ...JSON_OPTION,
  },
  words: { min: 0, max: 1 },
  async run(ctx, parsed) {
    const { terminal } = ctx
    const isJson = parsed.has('json')
    const { sandbox, taken } = await namedOrOwn(ctx, parsed.words[0], { usage: 'agentpod logs NAME', isJson })
    if (parsed.has('events')) {
      const events = await sandbox.events()
      if (isJson) terminal.out(JSON.stringify(taken.sandbox ? { ...taken, events } : events))
      else
        for (const { at, type, data } of events)
          terminal.out(
            `${at}  ${type}  ${Object.keys(data).length > 0 ? showHidden(JSON.stringify(data)) : ''}`.trimEnd(),
          )
      return 0
    }
    const processes = await sandbox.processes()
    if (parsed.has('list')) {
      if (isJson) terminal.out(JSON.stringify(taken.sandbox ? { ...taken, processes } : processes))
      else
        for (const line of table(
          processes.map((p) => [
            String(p.pid),
            p.endedAt ? `exit ${p.exitCode}` : 'running',
            taggedService(p.tag) ?? '',
            showHidden(p.command.join(' ')).slice(0, 100),
          ]),
        ))
          terminal.out(line)
      return 0
    }
    const pid = chosenProcess(parsed, processes)
    const isRunning = processes.some((p) => p.pid === pid && p.endedAt === undefined)
    const until = new AbortController()
    const child = sandbox.attach(pid, { signal: until.signal })
    // Without -f, the output so far is shown: a short silence marks the end of the stored output.
    const pause = (): NodeJS.Timeout | undefined =>
      isRunning && !parsed.has('follow') ? setTimeout(() => until.abort(), 200) : undefined
    let timer = pause()
    const stdout = safeOutput(terminal.stdout, parsed.has('raw'))
    const stderr = safeOutput(terminal.stderr, parsed.has('raw'))
    try {
      for await (const { stream, data } of child.output()) {
        clearTimeout(timer)
        await (stream === 'stderr' ? stderr : stdout).write(data)
        timer = pause()
      }
    } catch (error) {
      if (!until.signal.aborted) throw error
    }
    await Promise.all([stdout.end(), stderr.end()])
    return 0
  },
}

function chosenProcess(parsed: Parsed, processes: readonly ProcessInfo[]): number {
  const service = parsed.value('service')
  if (service !== undefined) return newestOf(service, processes)
  const asked = parsed.value('process')
  const pid = asked === undefined ? processes.at(-1)?.pid : parseNumber(asked, 'process')
  if (pid !== undefined) return pid
  throw new AgentPodError({
    code: 'not_found',
    reason: 'process.none',
    message: 'no process has run in this sandbox',
    hint: '`agentpod exec` runs a command',
  })
}

/** A restarted service has one process for each start. */
function newestOf(service: string, processes: readonly ProcessInfo[]): number {
  const pid = processes.findLast((one) => taggedService(one.tag) === service)?.pid
  if (pid !== undefined) return pid
  const known = [...new Set(processes.flatMap((one) => taggedService(one.tag) ?? []))]
  const near = nearest(service, known)
  throw new AgentPodError({
    code: 'not_found',
    reason: 'service.unknown',
    message: `no service ${showHidden(JSON.stringify(service))} has run in this sandbox`,
    hint: near
      ? `did you mean ${near}?`
      : known.length > 0
        ? `there are ${known.join(', ')}`
        : 'services are in [services] of agentpod.toml',
  })
}
