/** The connection to the helper that two-way sync runs in the sandbox. Its answers are hostile bytes. */
import { AgentPodError } from '../../core/error.ts'
import { type Clock, sleep } from '../../util/clock.ts'
import { randomWord, systemRandom } from '../../util/random.ts'
import { helperArguments } from './helper-script.ts'

const LONGEST_ANSWER_BYTES = 128 * 1024 * 1024
const LONGEST_MS = 120_000

/** The helper's process. It starts when its output is read. */
export interface HelperProcess {
  output(): AsyncIterable<{ readonly stream: string; readonly data: Buffer }>
  write(data: Buffer): Promise<void>
  /** Closes its input. */
  end(): Promise<void>
}

/** `clear` removes files that were staged and not renamed into place. */
export type HelperRequest = 'scan' | 'look' | 'hash' | 'change' | 'clear'

/** Size of the pieces that a request is sent in. */
const CHUNK = 128 * 1024

export class HelperConnection {
  readonly #program: HelperProcess
  readonly #clock: Clock
  readonly #ended: Promise<never>
  #parts: Buffer[] = []
  #size = 0
  #answer = Promise.withResolvers<string>()
  #word = 'ready'

  constructor(
    start: (command: string, args: readonly string[]) => HelperProcess,
    o: { workspace: string; stage: string; clock: Clock },
  ) {
    this.#program = start('/bin/sh', helperArguments(o.workspace, o.stage))
    this.#clock = o.clock
    this.#ended = this.#read()
    this.#ended.catch(() => undefined)
  }

  /** Waits until the helper answers. `unsupported` if the sandbox lacks the tools. */
  async ready(): Promise<void> {
    await this.#wait()
  }

  /** Returns the fields of the answer. Only one request may be open at a time. */
  async ask(question: HelperRequest, about = ''): Promise<string[]> {
    this.#word = randomWord(systemRandom, 24)
    this.#answer = Promise.withResolvers()
    const body = Buffer.from(about)
    const message = Buffer.concat([Buffer.from(`${question} ${this.#word} ${body.length}\n`), body])
    await Promise.race([this.#write(message), this.#ended])
    const fields = (await this.#wait()).split('\0')
    if (fields[0] === 'gone') throw workspaceGone()
    return fields.slice(0, -1)
  }

  async end(): Promise<void> {
    await this.#program.end().catch(() => undefined)
    await Promise.race([this.#ended.catch(() => undefined), sleep(this.#clock, END_MS)])
  }

  async #write(message: Buffer): Promise<void> {
    for (let at = 0; at < message.length; at += CHUNK)
      await this.#program.write(message.subarray(at, at + CHUNK))
  }

  async #wait(): Promise<string> {
    const waited = new AbortController()
    const late = sleep(this.#clock, LONGEST_MS, waited.signal).then(() => {
      throw broken('deadline_exceeded', `no answer within ${LONGEST_MS / 1000} s`)
    })
    late.catch(() => undefined)
    try {
      return await Promise.race([this.#answer.promise, this.#ended, late])
    } finally {
      waited.abort()
    }
  }

  async #read(): Promise<never> {
    for await (const { stream, data } of this.#program.output()) {
      if (stream === 'stderr') continue
      this.#parts.push(data)
      this.#size += data.length
      if (this.#size > LONGEST_ANSWER_BYTES) throw broken('resource_exhausted', 'its answer is too long')
      this.#look(data)
    }
    throw broken('unavailable', 'it exited')
  }

  /** An answer is complete when its last field is the random word of the request. */
  #look(latest: Buffer): void {
    if (latest.at(-1) !== 0) return
    const end = Buffer.from(`${this.#word}\0`)
    const tail = this.#tail(end.length + 1)
    if (tail.equals(Buffer.from('unfit\0'))) this.#answer.reject(unfit())
    const isWhole = tail.subarray(-end.length).equals(end) && (tail.length === end.length || tail[0] === 0)
    if (!isWhole) return
    const text = Buffer.concat(this.#parts).subarray(0, -end.length).toString('utf8')
    this.#parts = []
    this.#size = 0
    this.#answer.resolve(text)
  }

  #tail(length: number): Buffer {
    const last: Buffer[] = []
    let size = 0
    for (let i = this.#parts.length - 1; i >= 0 && size < length; i--) {
      const part = this.#parts[i] ?? Buffer.alloc(0)
      last.unshift(part)
      size += part.length
    }
    return Buffer.concat(last).subarray(-length)
  }
}

const END_MS = 2000

function broken(
  code: 'unavailable' | 'deadline_exceeded' | 'resource_exhausted',
  what: string,
): AgentPodError {
  return new AgentPodError({
    code,
    reason: 'sync.helper',
    message: `the sync helper in the sandbox failed: ${what}`,
  })
}

function workspaceGone(): AgentPodError {
  return new AgentPodError({
    code: 'failed_precondition',
    reason: 'sync.workspace_gone',
    message: 'the project directory no longer exists in the sandbox; your files are kept',
  })
}

function unfit(): AgentPodError {
  return new AgentPodError({
    code: 'unsupported',
    reason: 'sync.tools',
    message: 'sync needs GNU find, xargs and coreutils in the sandbox',
    hint: 'use another base, or leave out --sync',
  })
}
