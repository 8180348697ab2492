/** Commands of a FakeGuest: a handful of programs, each a few lines, with output kept from the first byte. */
import { PassThrough } from 'node:stream'
import { type Clock, sleep } from '../util/clock.ts'

export interface Commandline {
  readonly cmd: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly user: string
  readonly cwd: string
}

type Stream = 'stdout' | 'stderr'
type Data = { readonly stream: Stream; readonly bytes: Buffer }

export type ProcessEvent =
  | { readonly start: { readonly pid: number } }
  | { readonly data: { readonly [S in Stream]?: string } }
  | {
      readonly end: {
        readonly exitCode?: number
        readonly exited: boolean
        readonly status: string
        readonly signal?: string
      }
    }

const SHELL_WORDS = /'([^']*)'|"([^"]*)"|[^\s;]+|;/g
const KILLED = 137

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
  #exitCode: number | undefined
  #signal: string | undefined

  constructor(o: {
    pid: number
    tag: string | undefined
    line: Commandline
    clock: Clock
    files: Map<string, Buffer>
  }) {
    this.pid = o.pid
    this.tag = o.tag
    this.line = o.line
    this.#clock = o.clock
    this.#files = o.files
    this.#run(o.line.cmd, o.line.args).then(
      (code) => this.#end(code),
      () => this.#end(KILLED),
    )
  }

  /** How many bytes of input it was given. */
  get taken(): number {
    return this.#taken
  }

  /** Where in its output so many bytes of stdout have come. */
  afterStdout(count: number): number {
    let [position, left] = [0, count]
    for (const { stream, bytes } of this.#output) {
      if (left === 0) break
      position += stream === 'stdout' ? Math.min(left, bytes.length) : bytes.length
      if (stream === 'stdout') left -= Math.min(left, bytes.length)
    }
    return position
  }

  get exitCode(): number | undefined {
    return this.#exitCode
  }

  /** Every event from byte `offset` of the output on, then as they come. Returns the unsubscribe. */
  follow(offset: number, emit: (event: ProcessEvent) => void): () => void {
    emit({ start: { pid: this.pid } })
    let sent = 0
    let passed = 0
    const pump = (): void => {
      for (; sent < this.#output.length; sent++) {
        const data = this.#output[sent]
        if (!data) continue
        const bytes = data.bytes.subarray(Math.max(0, Math.min(data.bytes.length, offset - passed)))
        passed += data.bytes.length
        if (bytes.length > 0) emit({ data: { [data.stream]: bytes.toString('base64') } })
      }
      if (this.#exitCode === undefined) return
      this.#listeners.delete(pump)
      emit({ end: { ...endOf(this.#exitCode), ...(this.#signal && { signal: this.#signal }) } })
    }
    this.#listeners.add(pump)
    pump()
    return () => this.#listeners.delete(pump)
  }

  write(chunk: Buffer): void {
    this.#taken += chunk.length
    this.#stdin.write(chunk)
  }

  closeStdin(): void {
    this.#stdin.end()
  }

  /** `signal` is what is told of it. */
  kill(signal?: string): void {
    if (this.#exitCode === undefined) this.#signal = signal
    this.#killed.abort()
    this.#end(KILLED)
  }

  #end(code: number): void {
    if (this.#exitCode !== undefined) return
    this.#exitCode = code
    this.#tell()
  }

  #say(stream: Stream, text: string | Buffer): void {
    this.#output.push({ stream, bytes: Buffer.from(text) })
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
      case 'sh':
        return this.#script(tokens(words[1] ?? ''))
      default:
        this.#say('stderr', `${cmd}: not found\n`)
        return 127
    }
  }

  async #script(commands: readonly (readonly string[])[]): Promise<number> {
    let code = 0
    for (const [cmd = '', ...args] of commands) {
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

function endOf(code: number): { exitCode?: number; exited: boolean; status: string } {
  return { ...(code !== 0 && { exitCode: code }), exited: true, status: `exit status ${code}` }
}

/** Commands apart by `;`, words by spaces, quotes around words. */
function tokens(script: string): string[][] {
  const commands: string[][] = [[]]
  for (const match of script.matchAll(SHELL_WORDS)) {
    if (match[0] === ';') commands.push([])
    else commands.at(-1)?.push(match[1] ?? match[2] ?? match[0])
  }
  return commands.filter((words) => words.length > 0)
}
