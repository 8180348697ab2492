/** The process that starts and measures the peers; see peer-driver.py. */
import { type ChildProcess, spawn } from 'node:child_process'
import { join } from 'node:path'
import { createInterface, type Interface } from 'node:readline'
import type { Life, Loop } from './measure.ts'

const ANSWER_MS = 300_000
const END_MS = 30_000

/** How a peer is started once. The first word is a path; `{id}` and `{bundle}` stand for those of the run. */
export interface PeerProgram {
  readonly argv: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Each run gets an OCI bundle with an overlay as its root, and a cgroup. */
  readonly bundle?: {
    readonly lower: string
    /** The user and group of this machine that are root in the container. */
    readonly owner: number
    /** Where the bundles are made. */
    readonly directory: string
    /** The cgroup that holds those of the runs. */
    readonly group: string
    readonly config: object
  }
}

export class PeerDriver implements AsyncDisposable {
  readonly #child: ChildProcess
  readonly #lines: Interface
  #calls: Promise<unknown> = Promise.resolve()

  constructor(python: string) {
    const child = spawn(python, [join(import.meta.dirname, 'peer-driver.py')], {
      stdio: ['pipe', 'pipe', 'inherit'],
    })
    // Writing to a process that could not be started fails; the end of its output says so too.
    child.once('error', () => undefined)
    child.stdin.on('error', () => undefined)
    this.#child = child
    this.#lines = createInterface({ input: child.stdout })
  }

  life(program: PeerProgram): Promise<Life> {
    return this.#ask({ do: 'life', ...program })
  }

  /** Until the program is gone, whether or not it says something. */
  async command(program: PeerProgram): Promise<number> {
    const { lifeMs } = await this.#ask<Pick<Life, 'lifeMs'>>({ do: 'command', ...program })
    return lifeMs
  }

  /** All at once, until the last of them. */
  together(program: PeerProgram, count: number): Promise<Life> {
    return this.#ask({ do: 'together', count, ...program })
  }

  loop(program: PeerProgram, count: number): Promise<Loop> {
    return this.#ask({ do: 'loop', count, ...program })
  }

  /** One request at a time: two at once would disturb each other. */
  #ask<T>(request: object): Promise<T> {
    const answer = this.#calls.then(() => this.#askNow<T>(request))
    this.#calls = answer.catch(() => undefined)
    return answer
  }

  async #askNow<T>(request: object): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const fail = (): void => reject(new Error('the driver of the peers has ended'))
    // An answer that comes later would be taken for the next one.
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), ANSWER_MS)
    this.#lines.once('line', resolve).once('close', fail)
    this.#child.stdin?.write(`${JSON.stringify(request)}\n`)
    try {
      const answer = JSON.parse(await promise) as T & { readonly error?: string }
      if (answer.error !== undefined) throw new Error(answer.error)
      return answer
    } finally {
      clearTimeout(timer)
      this.#lines.off('line', resolve).off('close', fail)
    }
  }

  /** The driver removes what is left when its input ends. */
  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#child
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise((resolve) => child.once('exit', resolve))
    const timer = setTimeout(() => child.kill('SIGKILL'), END_MS)
    child.stdin?.end()
    await gone
    clearTimeout(timer)
  }
}
