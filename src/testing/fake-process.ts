/** Processes of a FakeGuest: a few built-in programs. All output is kept. */
import { PassThrough } from 'node:stream'
import { AgentPodError, type ErrorCode } from '../core/error.ts'
import type { OutputPlace, ProcessEvent, ProcessInfo } from '../core/guest-process.ts'
import { type Clock, sleep } from '../util/clock.ts'

export interface Commandline {
  readonly cmd: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly user: string
  readonly cwd: string
}

type Stream = 'stdout' | 'stderr'
type Data = { readonly kind: Stream; readonly data: Buffer }

const SHELL_WORDS = /'([^']*)'|"([^"]*)"|[^\s;]+|;/g
const KILLED = 137
const LONG_AGO = '2001-01-01T00:00:00Z'

export class FakeProcess {
  readonly pid: number
  readonly tag: string | undefined
  readonly line: Commandline
  readonly #clock: Clock
  readonly #files: Map<string, Buffer>
  readonly #listeners = new Set<() => void>()
  readonly #output: Data[] = []
  readonly #stdin = new PassThrough()
  readonly #killed = new AbortController()
  #taken = 0
  #isLate = false
  #cancelLimit = (): void => undefined
  #exitCode: number | undefined
  #signal: string | undefined

  constructor(o: {
    pid: number
    tag: string | undefined
    line: Commandline
    clock: Clock
    files: Map<string, Buffer>
    timeoutMs: number | undefined
  }) {
    this.pid = o.pid
    this.tag = o.tag
    this.line = o.line
    this.#clock = o.clock
    this.#files = o.files
    if (o.timeoutMs !== undefined) this.#cancelLimit = o.clock.after(o.timeoutMs, () => this.#late())
    this.#run(o.line.cmd, o.line.args).then(
      (code) => this.#end(code),
      () => this.#end(KILLED),
    )
  }

  /** The number of bytes of input it has been given. */
  get taken(): number {
    return this.#taken
  }

  get exitCode(): number | undefined {
    return this.#exitCode
  }

  get info(): ProcessInfo {
    const { cmd, args } = this.line
    const exit = { exitCode: this.#exitCode ?? 0, signal: this.#signal, oomKilled: false }
    return {
      pid: this.pid,
      tag: this.tag,
      command: cmd,
      args,
      env: {},
      startedAt: LONG_AGO,
      ...(this.#exitCode !== undefined && { ended: { at: LONG_AGO, exit } }),
      outputBytes: this.#size,
      stdinBytes: this.#taken,
    }
  }

  /** All events from a position in the output on, then live. `cut` throws to end the stream. */
  async *events(from: OutputPlace, signal: AbortSignal, cut: () => void): AsyncGenerator<ProcessEvent> {
    const place = this.#place(from)
    let [sent, passed] = [0, 0]
    yield { kind: 'start', pid: this.pid }
    for (;;) {
      cut()
      for (; sent < this.#output.length; sent++) {
        const { kind, data } = this.#output[sent] as Data
        const left = data.subarray(Math.max(0, Math.min(data.length, place - passed)))
        passed += data.length
        if (left.length > 0) yield { kind, data: left }
      }
      if (this.#isLate) throw fakeRefusal('deadline_exceeded', 'the call timed out')
      if (this.#exitCode !== undefined) {
        yield { kind: 'end', exit: { exitCode: this.#exitCode, signal: this.#signal, oomKilled: false } }
        return
      }
      await this.#news(signal)
    }
  }

  get #size(): number {
    return this.#output.reduce((sum, { data }) => sum + data.length, 0)
  }

  /** The position as an offset in all output. */
  #place(from: OutputPlace): number {
    if (from === 'now') return this.#size
    if ('stdout' in from) return this.#afterStdout(from.stdout)
    if (from.offset <= this.#size) return from.offset
    throw fakeRefusal('invalid_argument', `offset ${from.offset} is outside the output`)
  }

  #afterStdout(count: number): number {
    let [position, left] = [0, count]
    for (const { kind, data } of this.#output) {
      if (left === 0) break
      position += kind === 'stdout' ? Math.min(left, data.length) : data.length
      if (kind === 'stdout') left -= Math.min(left, data.length)
    }
    return position
  }

  /** Resolves when something has happened or the wait is aborted. */
  async #news(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#listeners.add(resolve)
    const stop = (): void => resolve()
    signal.addEventListener('abort', stop, { once: true })
    if (signal.aborted) resolve()
    await promise
    signal.removeEventListener('abort', stop)
    this.#listeners.delete(resolve)
  }

  write(chunk: Buffer): void {
    this.#taken += chunk.length
    this.#stdin.write(chunk)
  }

  closeStdin(): void {
    this.#stdin.end()
  }

  /** `signal` is reported with the exit. */
  kill(signal?: string): void {
    if (this.#exitCode === undefined) this.#signal = signal
    this.#killed.abort()
    this.#end(KILLED)
  }

  #late(): void {
    if (this.#exitCode === undefined) this.#isLate = true
    this.kill('SIGKILL')
  }

  #end(code: number): void {
    if (this.#exitCode !== undefined) return
    this.#exitCode = code
    this.#cancelLimit()
    this.#tell()
  }

  #say(kind: Stream, text: string | Buffer): void {
    this.#output.push({ kind, data: Buffer.from(text) })
    this.#tell()
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener()
  }

  async #run(cmd: string, args: readonly string[]): Promise<number> {
    const isToStderr = args.at(-1) === '>&2'
    const words = isToStderr ? args.slice(0, -1) : args
    const say = (text: string | Buffer): void => this.#say(isToStderr ? 'stderr' : 'stdout', text)
    switch (cmd.split('/').at(-1)) {
      case 'true':
        return 0
      case 'false':
        return 1
      case 'echo':
        say(`${words.join(' ')}\n`)
        return 0
      case 'exit':
        return Number(words[0] ?? 0)
      case 'id':
        say(`${this.line.user}\n`)
        return 0
      case 'pwd':
        say(`${this.line.cwd}\n`)
        return 0
      case 'printenv': {
        const value = this.line.env[words[0] ?? '']
        if (value !== undefined) say(`${value}\n`)
        return value === undefined ? 1 : 0
      }
      case 'cat':
        return words[0] === undefined ? this.#copyInput(say) : this.#copyFile(words[0], say)
      case 'write':
        this.#files.set(words[0] ?? '', Buffer.from(words.slice(1).join(' ')))
        return 0
      case 'rm':
        return words.every((path) => this.#files.delete(path)) ? 0 : 1
      case 'sleep':
        await sleep(this.#clock, Number(words[0]) * 1000, this.#killed.signal)
        return 0
      case 'then':
      case 'exec':
        return this.#run(words[0] ?? '', words.slice(1))
      case 'bash':
      case 'sh':
        return this.#script(tokens(words.at(-1) ?? ''))
      default:
        this.#say('stderr', `${cmd}: not found\n`)
        return 127
    }
  }

  async #script(commands: readonly (readonly string[])[]): Promise<number> {
    let code = 0
    for (const [cmd = '', ...args] of commands) {
      // A condition is true, and its other branch is left out.
      if (['if', 'else', 'fi'].includes(cmd)) continue
      code = await this.#run(cmd, args)
      if (cmd === 'exit') break
    }
    return code
  }

  #copyFile(path: string, say: (bytes: Buffer) => void): number {
    const content = this.#files.get(path)
    if (content) say(content)
    else this.#say('stderr', `cat: ${path}: No such file or directory\n`)
    return content ? 0 : 1
  }

  async #copyInput(say: (bytes: Buffer) => void): Promise<number> {
    for await (const chunk of this.#stdin) say(chunk as Buffer)
    return 0
  }
}

/** An error as a guest returns it. */
export function fakeRefusal(code: ErrorCode, message: string): AgentPodError {
  return new AgentPodError({ code, reason: 'guest.said', message })
}

/** Splits commands at `;` and words at spaces; words may be quoted. */
function tokens(script: string): string[][] {
  const commands: string[][] = [[]]
  for (const match of script.matchAll(SHELL_WORDS)) {
    if (match[0] === ';') commands.push([])
    else commands.at(-1)?.push(match[1] ?? match[2] ?? match[0])
  }
  return commands.filter((words) => words.length > 0)
}
