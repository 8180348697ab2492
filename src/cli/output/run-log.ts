/** The live log of runs: on a terminal, in a pipe, or as JSON for programs. */
import type { RunEventView } from '../../api/schema/run.ts'
import { type Clock, systemClock } from '../../util/clock.ts'
import { labelOf } from '../../workbench/run/run-label.ts'
import { Doing } from './doing.ts'
import { PLAIN, RunLines, type Style } from './run-lines.ts'
import type { Terminal } from './terminal.ts'

export interface LoggedRun {
  readonly id: string
  readonly agent: string
  readonly number: number
}

export interface RunLogOptions {
  readonly isJson?: boolean | undefined
  /** Whether the user is asked the agents' questions. */
  readonly isAsking?: boolean | undefined
  readonly clock?: Clock | undefined
}

const TICK_MS = 1000
/** Cyan, magenta, yellow, blue, green. */
const COLOURS = [36, 35, 33, 34, 32] as const
const FALLBACK_COLUMNS = 80
/** Lines that wait while a question is on the screen. */
const MOST_HELD = 10_000
/** A rule answers at once; a question that is still open after this long is for a person. */
export const BREATH_MS = 150

interface Channel {
  readonly lines: RunLines
  readonly prefix: string
}

export class RunLog {
  readonly #terminal: Terminal
  readonly #isJson: boolean
  readonly #channels = new Map<string, Channel>()
  readonly #clock: Clock
  /** For a single run; several runs would make the status line flicker. */
  readonly #doing: Doing | undefined
  #cancelTick: (() => void) | undefined
  #held: string[] | undefined
  #leftOut = 0

  constructor(terminal: Terminal, runs: readonly LoggedRun[], o: RunLogOptions = {}) {
    this.#terminal = terminal
    this.#isJson = o.isJson ?? false
    this.#clock = o.clock ?? systemClock
    this.#doing = runs.length === 1 ? new Doing() : undefined
    const isTerminal = terminal.stdout.isTTY === true
    const style: Style = isTerminal ? terminal : PLAIN
    const names = runs.map(labelOf)
    const longest = Math.max(0, ...names.map(({ length }) => length))
    for (const [index, run] of runs.entries()) {
      const plain = runs.length > 1 ? `${(names[index] ?? '').padEnd(longest)} │ ` : ''
      const colour = COLOURS[index % COLOURS.length]
      const isColoured = plain !== '' && style.bold('') !== ''
      const columns = (terminal.stdout.columns || FALLBACK_COLUMNS) - plain.length
      this.#channels.set(run.id, {
        prefix: isColoured ? `\u001b[${colour}m${plain}\u001b[0m` : plain,
        lines: new RunLines({
          run: run.id,
          width: isTerminal ? Math.max(40, columns) : undefined,
          style,
          isAsking: o.isAsking ?? false,
        }),
      })
    }
  }

  take(run: string, event: RunEventView): void {
    if (this.#isJson) {
      this.#terminal.out(JSON.stringify({ run, ...event }))
      return
    }
    const channel = this.#channels.get(run)
    if (!channel) return
    const { lines } = channel.lines.take(event.body)
    for (const line of lines) this.#write(`${channel.prefix}${line}`)
    if (channel.lines.isHolding) this.#clock.after(BREATH_MS, () => this.#settle(channel))
    this.#doing?.take(event)
    this.#draw()
  }

  /** The run has ended. */
  end(run: string): void {
    const channel = this.#channels.get(run)
    if (channel) this.#flush(channel)
    this.#cancelTick?.()
    this.#cancelTick = undefined
    this.#terminal.clearProgress()
  }

  /** Redraws every second, for the clock. */
  #draw(): void {
    this.#cancelTick?.()
    this.#cancelTick = undefined
    const line = this.#doing?.line(this.#clock.now(), (this.#terminal.stderr.columns || FALLBACK_COLUMNS) - 1)
    if (line === undefined || this.#held) return
    this.#terminal.progress(line)
    this.#cancelTick = this.#clock.after(TICK_MS, () => this.#draw())
  }

  #settle(channel: Channel): void {
    if (channel.lines.isHolding) this.#flush(channel)
  }

  #flush({ lines, prefix }: Channel): void {
    for (const line of lines.rest()) this.#write(`${prefix}${line}`)
  }

  /** Holds new lines back, so that a question stays readable. */
  hold(): void {
    this.#terminal.clearProgress()
    this.#held ??= []
  }

  release(): void {
    const held = this.#held ?? []
    this.#held = undefined
    for (const line of held) this.#write(line)
    if (this.#leftOut > 0) this.#write(this.#terminal.dim(`… ${this.#leftOut} lines were left out`))
    this.#leftOut = 0
    this.#draw()
  }

  #write(line: string): void {
    if (this.#held) {
      if (this.#held.length < MOST_HELD) this.#held.push(line)
      else this.#leftOut++
      return
    }
    this.#terminal.clearProgress()
    this.#terminal.out(line)
  }
}
