/** The status line of a run: the present command, a clock, its last output line and the usage. */
import type { RunEventBodyView, RunEventView } from '../../api/schema/run.ts'
import { oneLine, truncate } from '../../util/one-line.ts'
import { usageText } from './run-lines.ts'

interface Open {
  readonly title: string
  readonly since: number
  readonly printed: string
}

type ToolEvent = Extract<RunEventBodyView, { type: 'tool' }>

const STATES = {
  queued: 'waiting for a free slot',
  starting: 'starting',
  working: 'working',
  waiting: 'waiting for an answer',
  finishing: 'taking the result',
} as const

/** SECURITY: CP-16. An agent may start more tools than it ends. */
const MOST_OPEN = 64
/** The title's share of the line; the rest is for output and usage. */
const TITLE_SHARE = 0.5

export class Doing {
  /** The newest is last. */
  readonly #tools = new Map<string, Open>()
  #state: { readonly word: string; readonly since: number } | undefined
  #used: string | undefined

  take({ at, body }: RunEventView): void {
    if (body.type === 'tool') this.#tool(body, Date.parse(at))
    if (body.type === 'usage') this.#used = usageText(body.usage)
    if (body.type !== 'state') return
    this.#state = body.state === 'ended' ? undefined : { word: STATES[body.state], since: Date.parse(at) }
    if (body.state !== 'working' && body.state !== 'waiting') this.#tools.clear()
  }

  /** Undefined if nothing is known. */
  line(now: number, width: number): string | undefined {
    if (!this.#state) return undefined
    const open = [...this.#tools.values()].at(-1)
    const more = this.#tools.size > 1 ? ` (and ${this.#tools.size - 1} more)` : ''
    const first = open
      ? `→ ${truncate(open.title, Math.max(20, Math.floor(width * TITLE_SHARE)))}${more}`
      : this.#state.word
    const parts = [first, clock(now - (open ?? this.#state).since), open?.printed, this.#used]
    return truncate(parts.filter((part) => part !== undefined && part !== '').join(' · '), width)
  }

  #tool({ tool, title, status, output }: ToolEvent, at: number): void {
    const before = this.#tools.get(tool)
    if (status === 'done' || status === 'failed') this.#tools.delete(tool)
    else if (before || this.#tools.size < MOST_OPEN)
      this.#tools.set(tool, {
        title: oneLine(title),
        since: before?.since ?? at,
        printed: lastLine(output) ?? before?.printed ?? '',
      })
  }
}

function lastLine(text: string | undefined): string | undefined {
  const lines = (text ?? '').split('\n').map(oneLine)
  return lines.findLast((line) => line.trim() !== '')?.trim()
}

/** `0:07`, `12:30`, `1:02:03`. */
function clock(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000))
  const two = (value: number): string => String(value).padStart(2, '0')
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60]
  return hours > 0 ? `${hours}:${two(minutes)}:${two(seconds % 60)}` : `${minutes}:${two(seconds % 60)}`
}
