/** Programs that files of other platforms run beside the project. */
import type { Detected } from '../../detect/detect.ts'
import type { ServiceWish } from '../../project/data.ts'
import { whyBeaten } from '../resolve/by-rank.ts'
import type { WantedService } from './service-plan.ts'

const READY_MS = 60_000

/** Names the programs of files that are not the strongest. */
export function lostProcesses({ formats }: Pick<Detected, 'formats'>): string[] {
  const [format, ...others] = formats.filter(({ processes }) => processes.length > 0)
  const [chosen] = format?.processes ?? []
  return others.flatMap(({ processes }) =>
    processes.flatMap((lost) => {
      const { file, line } = lost.evidence
      const place = line === undefined ? file : `${file}:${line}`
      return chosen
        ? [`${place}: ${lost.name} is not started beside the project: ${whyBeaten(chosen, lost, false)}`]
        : []
    }),
  )
}

/** Those of the strongest file; `false` under `[services]` turns one off. A dev command is left to `dev`. */
export function formatServices(
  { formats, findings }: Detected,
  wishes: readonly ServiceWish[],
): WantedService[] {
  const [format] = formats.filter(({ processes }) => processes.length > 0)
  const dev = findings.flatMap(({ commands }) => commands.dev?.run ?? [])
  const asked = new Set(wishes.map(({ name }) => name))
  const own = (format?.processes ?? []).filter(({ name, run }) => !asked.has(name) && !dev.includes(run))
  return own.map(({ name, run, port, ready, evidence }) => ({
    name,
    known: undefined,
    version: undefined,
    port: port ?? 0,
    account: undefined,
    choice: { value: 'command', rank: format?.rank ?? 'default', evidence, beat: [] },
    command: {
      kind: 'command',
      name,
      run,
      workdir: '',
      variables: {},
      stopSignal: 'SIGTERM',
      ready: {
        ...(ready !== undefined && { command: ready }),
        ...(ready === undefined && port !== undefined && { port }),
        timeoutMs: READY_MS,
      },
    },
  }))
}
