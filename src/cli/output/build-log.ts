/** A build as a person follows it: one line for each step that is built, and the last words of one that fails. */
import type { BuildOptions, BuildStep } from '../../client/builds.ts'
import { printable, type Terminal } from './terminal.ts'

const TAIL_LINES = 25
const KEPT_BYTES = 64 * 1024

export class BuildLog {
  readonly #terminal: Terminal
  readonly #isVerbose: boolean
  readonly #onOutput: ((step: string, data: Buffer) => void) | undefined
  #step: BuildStep | undefined
  #tail = Buffer.alloc(0)

  constructor(
    terminal: Terminal,
    o: { readonly isVerbose?: boolean; readonly onOutput?: (step: string, data: Buffer) => void } = {},
  ) {
    this.#terminal = terminal
    this.#isVerbose = o.isVerbose ?? false
    this.#onOutput = o.onOutput
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
      this.#step = step
      this.#tail = Buffer.alloc(0)
      say(`${place} ${printable(step.title)} ${dim(`(${printable(step.why ?? '')})`)}`)
      return
    }
    this.#step = undefined
    if (this.#isVerbose || (step.ms ?? 0) >= SLOW_MS)
      say(dim(`      ${((step.ms ?? 0) / 1000).toFixed(1)} s, ${megabytes(step.sizeBytes ?? 0)}`))
  }

  #output(step: string, data: Buffer): void {
    this.#tail = Buffer.concat([this.#tail, data]).subarray(-KEPT_BYTES)
    this.#onOutput?.(step, data)
    const line = plain(data).trimEnd().split('\n').at(-1)?.trim()
    if (this.#isVerbose) this.#terminal.stderr.write(plain(data))
    else if (line) this.#terminal.progress(`      ${line}`)
  }

  /** The end of what the step that failed said. */
  fail(): void {
    if (!this.#step || this.#isVerbose) return
    const lines = plain(this.#tail).trimEnd().split('\n').slice(-TAIL_LINES)
    for (const line of lines) if (line !== '') this.#terminal.say(this.#terminal.dim(`      ${line}`))
  }

  end(): void {
    this.#terminal.clearProgress()
  }
}

const SLOW_MS = 1000

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
