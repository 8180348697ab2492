/** A build as a person follows it: one line for each step that is built, and the last words of one that fails. */
import type { BuildOptions, BuildStep } from '../../client/builds.ts'
import { asAgentPodError } from '../../core/error.ts'
import { spoken } from '../../util/spoken.ts'
import { adviceOn, firstErrors } from './build-advice.ts'
import type { StepLogs } from './step-logs.ts'
import { printable, type Terminal } from './terminal.ts'

const TAIL_LINES = 25
const KEPT_BYTES = 256 * 1024

export class BuildLog {
  readonly #terminal: Terminal
  readonly #isVerbose: boolean
  readonly #logs: StepLogs | undefined
  #step: BuildStep | undefined
  #clock: NodeJS.Timeout | undefined
  #startedAt = 0
  /** What the step said last, and when it or we last said something. */
  #line = ''
  #saidAt = 0
  #tail = Buffer.alloc(0)

  constructor(terminal: Terminal, o: { readonly isVerbose?: boolean; readonly logs?: StepLogs } = {}) {
    this.#terminal = terminal
    this.#isVerbose = o.isVerbose ?? false
    this.#logs = o.logs
  }

  get options(): Pick<BuildOptions, 'onProgress' | 'onStep' | 'onOutput'> {
    return {
      onProgress: (text) => this.#terminal.progress(printable(text)),
      onStep: (step) => this.#take(step),
      onOutput: (step, data) => this.#output(step, data),
    }
  }

  #take(step: BuildStep): void {
    const { dim, say } = this.#terminal
    const place = `[${step.number}/${step.of}]`
    if (step.state === 'cached') {
      if (this.#isVerbose) say(dim(`${place} ${printable(step.title)} (there)`))
      return
    }
    if (step.state === 'started') {
      this.#begin(step)
      say(`${place} ${printable(step.title)} ${dim(`(${printable(step.why ?? '')})`)}`)
      return
    }
    this.#step = undefined
    clearInterval(this.#clock)
    if (this.#isVerbose || (step.ms ?? 0) >= SLOW_MS)
      say(dim(`      ${((step.ms ?? 0) / 1000).toFixed(1)} s, ${megabytes(step.sizeBytes ?? 0)}`))
  }

  #begin(step: BuildStep): void {
    this.#step = step
    this.#tail = Buffer.alloc(0)
    this.#line = ''
    this.#startedAt = this.#saidAt = performance.now()
    clearInterval(this.#clock)
    this.#clock = setInterval(() => this.#tick(), CLOCK_MS).unref()
  }

  /** A step that hangs is seen to: a clock on a terminal, and a line now and then where there is none. */
  #tick(): void {
    const { stderr } = this.#terminal
    const now = performance.now()
    if (stderr.isTTY && !this.#isVerbose) this.#show()
    else if (now - this.#saidAt >= QUIET_MS) this.#sayQuiet(now)
  }

  #sayQuiet(now: number): void {
    const { dim, say } = this.#terminal
    this.#saidAt = now
    const last = this.#line === '' ? 'it has said nothing' : `it said last: ${this.#line}`
    say(dim(`      still running after ${spoken(now - this.#startedAt)}; ${last}`))
  }

  #show(): void {
    const seconds = Math.floor((performance.now() - this.#startedAt) / 1000)
    const clock = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
    this.#terminal.progress(`      ${clock}  ${this.#line}`)
  }

  #output(step: string, data: Buffer): void {
    this.#tail = Buffer.concat([this.#tail, data]).subarray(-KEPT_BYTES)
    this.#logs?.add(step, data)
    const line = plain(data).trimEnd().split('\n').at(-1)?.trim()
    if (line) this.#line = line
    if (this.#isVerbose) this.#terminal.stderr.write(plain(data))
    else if (line) this.#show()
    if (this.#isVerbose) this.#saidAt = performance.now()
  }

  /** Why a step failed: what it said of errors, its last words, its command, where all of it is, who was refused, and what to do. */
  fail(thrown: unknown): void {
    const { say, dim, red } = this.#terminal
    const { step, command, refused } = asAgentPodError(thrown).details ?? {}
    const text = plain(this.#tail).trimEnd()
    if (this.#step && !this.#isVerbose) {
      const lines = text.split('\n').filter((line) => line !== '')
      const first = firstErrors(lines, TAIL_LINES)
      const cut = lines.length > TAIL_LINES ? ['...'] : []
      for (const line of [...first, ...cut, ...lines.slice(-TAIL_LINES)]) say(dim(`      ${line}`))
    }
    if (typeof step === 'string') this.#logs?.say(this.#terminal, step, String(command))
    for (const host of Array.isArray(refused) ? refused.slice(0, MOST_REFUSED) : []) {
      const name = printable(String(host))
      say(red(`✗ refused: ${name} (no rule allows it while the environment is built)`))
      say(dim('  to have it fetched from there: `agentpod preset set NAME HOST...` for its package manager'))
    }
    const advice = this.#step && adviceOn(text)
    if (advice !== undefined) say(advice)
  }

  end(): void {
    clearInterval(this.#clock)
    this.#terminal.clearProgress()
  }
}

const SLOW_MS = 1000
const CLOCK_MS = 1000
const QUIET_MS = 30_000
const MOST_REFUSED = 10

export function megabytes(bytes: number): string {
  if (bytes >= 1024 ** 3) return `${(bytes / 1024 ** 3).toFixed(1)} GB`
  return `${(bytes / 1024 ** 2).toFixed(bytes < 10 * 1024 ** 2 ? 1 : 0)} MB`
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: an escape sequence begins with one
const COLOUR = /\u001b\[[0-9;]*[A-Za-z]/g

/** Lines of a program inside, fit for a terminal. */
function plain(data: Buffer): string {
  return (
    data
      .toString('utf8')
      // Colours would be shown as the characters that they are made of.
      .replaceAll(COLOUR, '')
      .replaceAll('\r\n', '\n')
      .split('\n')
      .map((line) => printable(line.split('\r').at(-1) ?? ''))
      .join('\n')
  )
}
