/** The few figures that a user notices, in sentences and as bars. A figure that is missing is left out. */
import type { Panel } from './chart.ts'
import { duration } from './duration.ts'
import type { Summary } from './measure.ts'

export type FigureName = 'create' | 'loop' | 'exec' | 'hundred' | 'copies' | 'run' | 'memory' | 'fixedMemory'
export type Figures = ReadonlyMap<FigureName, readonly Summary[]>

/** Names of rows. */
export const OURS = 'agentpod'
export const OURS_COLD = 'agentpod, no shell ready'
/** The least that the SDK, HTTP and Node take. */
export const EMPTY_SERVER = 'a server in Node without sandboxes, same requests'
/** The least that a program in Go takes as the first process of a container, without mounts and guards. */
export const EMPTY_PODD = 'podd in new namespaces, started and ended'
export const PLAIN_RUNTIME = 'crun'
export const SAME_WORK = 'crun, overlay and limits (same work)'

const PANELS: readonly { readonly name: FigureName; readonly title: string }[] = [
  { name: 'create', title: 'Create to first output' },
  { name: 'loop', title: 'One life in a loop without pauses' },
  { name: 'exec', title: 'A command in a running sandbox' },
  { name: 'hundred', title: '100 at once, until all have said something' },
]
/** The peers that sentences name, if they are there: those that readers know, and the closest one. */
const NAMED_PEERS = [SAME_WORK, PLAIN_RUNTIME, 'docker', 'podman']
const MOST_NAMED = 3

export function panelsOf(figures: Figures): Panel[] {
  return PANELS.flatMap(({ name, title }) => {
    const rows = (figures.get(name) ?? []).filter(({ p50 }) => Number.isFinite(p50))
    if (rows.length === 0) return []
    return [{ title, bars: rows.map((row) => ({ name: row.name, ms: row.p50, isOurs: isOurs(row) })) }]
  })
}

/** Lines of Markdown with the chart at the end. */
export function frontPage(figures: Figures): string[] {
  const median = (name: FigureName, row = OURS): number | undefined =>
    figures.get(name)?.find((one) => one.name === row)?.p50
  const line = (ms: number | undefined, text: (value: string) => string, peers = ''): string[] =>
    ms === undefined || Number.isNaN(ms) ? [] : [wrapped(`- ${text(duration(ms))}${peers}.`)]
  const loop = median('loop')
  const each = median('memory')
  const rest = median('fixedMemory')
  return [
    ...line(
      median('create'),
      (value) => `**A new sandbox has run its first command after ${value}**`,
      peersOf(figures, 'create'),
    ),
    ...line(
      loop,
      (value) =>
        `One after another without pauses, a sandbox takes ${value} from create to destroyed: ${(1000 / (loop ?? 1)).toFixed(0)} a second`,
      peersOf(figures, 'loop'),
    ),
    ...line(
      median('exec'),
      (value) => `A command in a running sandbox takes ${value}`,
      peersOf(figures, 'exec'),
    ),
    ...line(
      median('hundred'),
      (value) => `100 sandboxes created at once have all run a command after ${value}`,
      peersOf(figures, 'hundred'),
    ),
    ...line(
      median('copies', 'snapshot'),
      (value) => `A snapshot of a running sandbox with 1 GiB in 50,000 files takes ${value}`,
    ),
    ...line(
      median('run', 'agentpod run -- true'),
      (value) => `\`agentpod run -- true\` in a small repository takes ${value}`,
    ),
    ...(each === undefined || rest === undefined
      ? []
      : [
          `- An idle sandbox takes ${each.toFixed(1)} MiB of memory; everything else together takes ${rest.toFixed(0)} MiB.`,
        ]),
    '',
    `![Bars: AgentPod beside its peers](benchmarks.svg)`,
  ]
}

/** A point of a list, in lines as long as documents may have. */
function wrapped(text: string): string {
  return text.replaceAll(/(.{1,117})(?: |$)/g, '  $1\n').trim()
}

/** The same figure of the peers, in parentheses. */
function peersOf(figures: Figures, name: FigureName): string {
  const rows = figures.get(name) ?? []
  const named = NAMED_PEERS.map((peer) =>
    rows.find((row) => row.name === peer || row.name === `${peer} exec`),
  )
    .filter((row) => row !== undefined)
    .slice(0, MOST_NAMED)
  return named.length === 0 ? '' : ` (${named.map((row) => `${row.name}: ${duration(row.p50)}`).join('; ')})`
}

const isOurs = ({ name }: Summary): boolean => name.startsWith(OURS)
