/** Shows a build: one line for each step that is built, and the last lines of a step that fails. */
import type { BuildStep } from '../../client/builds.ts'
import { asAgentPodError } from '../../core/error.ts'
import { formatDuration } from '../../util/format-duration.ts'
import { showHidden } from '../../util/hidden-characters.ts'
import type { WorkProgress } from '../../workbench/ask.ts'
import { adviceOn, firstErrors } from './build-advice.ts'
import type { StepLogs } from './step-logs.ts'
import type { Terminal } from './terminal.ts'

const TAIL_LINES = 25
const KEPT_BYTES = 256 * 1024

export interface BuildLogOptions {
  readonly isVerbose?: boolean
  readonly logs?: StepLogs
  /** The option that allows a host, where there is one. */
  readonly allowHint?: ((host: string) => string) | undefined
}

/** For a Dockerfile that a project's file names. */
export function allowInProject(host: string): string {
  return `allow = ["${host}"] under [network] in agentpod.toml`
}

export class BuildLog implements WorkProgress {
  readonly #terminal: Terminal
  readonly #isVerbose: boolean
  readonly #logs: StepLogs | undefined
  readonly #allowHint: BuildLogOptions['allowHint']
  #step: BuildStep | undefined
  #clock: NodeJS.Timeout | undefined
  #startedAt = 0
  /** The last line of the step, and when a line was last printed. */
  #line = ''
  #saidAt = 0
  #tail = Buffer.alloc(0)

  constructor(terminal: Terminal, o: BuildLogOptions = {}) {
    this.#terminal = terminal
    this.#isVerbose = o.isVerbose ?? false
    this.#logs = o.logs
    this.#allowHint = o.allowHint
  }

  status(text: string): void {
    this.#terminal.progress(showHidden(text))
  }

  step(step: BuildStep): void {
    const { dim, say } = this.#terminal
    const place = `[${step.number}/${step.of}]`
    if (step.state === 'cached') {
      if (this.#isVerbose) say(dim(`${place} ${showHidden(step.title)} (cached)`))
      return
    }
    if (step.state === 'started') {
      this.#begin(step)
      say(`${place} ${showHidden(step.title)} ${dim(`(${showHidden(step.why ?? '')})`)}`)
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

  /** Shows that a silent step is still running: a clock on a terminal, a line now and then in a pipe. */
  #tick(): void {
    const { stderr } = this.#terminal
    const now = performance.now()
    if (stderr.isTTY && !this.#isVerbose) this.#show()
    else if (now - this.#saidAt >= QUIET_MS) this.#sayQuiet(now)
  }

  #sayQuiet(now: number): void {
    const { dim, say } = this.#terminal
    this.#saidAt = now
    const last = this.#line === '' ? 'no output yet' : `last line: ${this.#line}`
    say(dim(`      still running after ${formatDuration(now - this.#startedAt)}; ${last}`))
  }

  #show(): void {
    const seconds = Math.floor((performance.now() - this.#startedAt) / 1000)
    const clock = seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`
    this.#terminal.progress(`      ${clock}  ${this.#line}`)
  }

  output(step: string, data: Buffer): void {
    this.#tail = Buffer.concat([this.#tail, data]).subarray(-KEPT_BYTES)
    this.#logs?.add(step, data)
    const line = plain(data).trimEnd().split('\n').at(-1)?.trim()
    if (line) this.#line = line
    if (this.#isVerbose) this.#terminal.stderr.write(plain(data))
    else if (line) this.#show()
    if (this.#isVerbose) this.#saidAt = performance.now()
  }

  /**
   * Shows why a step failed: its first errors, its last lines, its command, its log, refused hosts, and
   * advice.
   */
  failed(thrown: unknown): void {
    const { say, dim, red } = this.#terminal
    const { step, command, refused } = asAgentPodError(thrown).details ?? {}
    const text = plain(this.#tail).trimEnd()
    if (this.#step && !this.#isVerbose) {
      const lines = text.split('\n').filter((line) => line !== '')
      const first = firstErrors(lines, TAIL_LINES)
      const cut = lines.length > TAIL_LINES ? ['...'] : []
      for (const line of [...first, ...cut, ...lines.slice(-TAIL_LINES)]) say(dim(`      ${line}`))
    }
    if (typeof step === 'string' && command !== undefined)
      this.#logs?.say(this.#terminal, step, String(command))
    for (const host of Array.isArray(refused) ? refused.slice(0, MOST_REFUSED) : []) {
      const name = showHidden(String(host))
      say(red(`✗ refused: ${name} (no rule allows it while the environment is built)`))
      const option = this.#allowHint?.(name.replace(/:(?:80|443)$/, ''))
      const how = option ?? '`agentpod preset set NAME HOST...` for its package manager'
      say(dim(`  to allow it: ${how}`))
    }
    const advice = this.#step && adviceOn(text)
    if (advice !== undefined) say(advice)
  }

  [Symbol.dispose](): void {
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
      .map((line) => showHidden(line.split('\r').at(-1) ?? ''))
      .join('\n')
  )
}
