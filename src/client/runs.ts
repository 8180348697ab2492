/** Agents at work on a server. */
import type { IncomingMessage } from 'node:http'
import type { CreateRun, RunEventView, RunView, SendRun, TakenOverView } from '../api/schema/run.ts'
import { followStream } from './follow.ts'
import type { Transport } from './transport.ts'

export type RunOptions = CreateRun
export type RunInfo = RunView
export type RunEventInfo = RunEventView

const RUNS = '/v1/runs'

export class Runs {
  readonly #transport: Transport

  /** Use `AgentPod.runs`. */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  /** Puts an agent to work; resolves as soon as the server has written it down. */
  async start(o: RunOptions): Promise<Run> {
    return this.#run('POST', '', o)
  }

  async get(id: string): Promise<Run> {
    return this.#run('GET', `/${encodeURIComponent(id)}`)
  }

  /** The newest 200, newest first. */
  async list(o: { readonly project?: string; readonly group?: string } = {}): Promise<Run[]> {
    const views = await this.#transport.json('GET', `${RUNS}?${new URLSearchParams(o)}`)
    return (views as RunView[]).map((view) => new Run(this.#transport, view))
  }

  async #run(method: string, path: string, body?: object): Promise<Run> {
    return new Run(this.#transport, (await this.#transport.json(method, `${RUNS}${path}`, body)) as RunView)
  }
}

/** One run, by reference to the server that has it. */
export class Run {
  readonly #transport: Transport
  readonly info: RunView

  constructor(transport: Transport, info: RunView) {
    this.#transport = transport
    this.info = info
  }

  get id(): string {
    return this.info.id
  }

  /** At most 1,000, oldest first. */
  async events(after = 0): Promise<RunEventView[]> {
    return (await this.#transport.json('GET', `${this.#path}/events?after=${after}`)) as RunEventView[]
  }

  /** The events after `o.after` and those that come, until it has ended. A connection that breaks is made again, without gap or repeat. */
  follow(
    o: { readonly after?: number | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<RunEventView> {
    return followStream<RunEventView>(this.#transport, `${this.#path}/events`, {}, o)
  }

  /** How it is now. */
  refresh(): Promise<Run> {
    return this.#verb('GET', '')
  }

  /** Until it has ended; how it is then. */
  async ended(o: { readonly signal?: AbortSignal | undefined } = {}): Promise<Run> {
    for await (const _ of this.follow({ after: Number.MAX_SAFE_INTEGER, ...o })) {
      // Only the end is of interest.
    }
    return this.refresh()
  }

  cancel(): Promise<Run> {
    return this.#verb('POST', '/cancel')
  }

  /** More to do: after what it is doing, or at once where it has ended. Limits replace those it has. */
  send(text: string, o: Pick<SendRun, 'limits'> = {}): Promise<Run> {
    return this.#verb('POST', '/messages', { text, ...o })
  }

  answer(permission: string, answer: 'allow' | 'deny'): Promise<Run> {
    return this.#verb('POST', `/permissions/${encodeURIComponent(permission)}`, { answer })
  }

  /** A pack of git, made inside: hostile bytes. */
  result(o: { readonly signal?: AbortSignal | undefined } = {}): Promise<IncomingMessage> {
    return this.#transport.open({ method: 'GET', path: `${this.#path}/result`, signal: o.signal })
  }

  async takeOver(): Promise<TakenOverView> {
    return (await this.#transport.json('POST', `${this.#path}/take-over`)) as TakenOverView
  }

  handBack(): Promise<Run> {
    return this.#verb('POST', '/hand-back')
  }

  /** Ends it where it works, and forgets it with its sandbox and its result. */
  async remove(): Promise<void> {
    await this.#transport.json('DELETE', this.#path)
  }

  get #path(): string {
    return `${RUNS}/${this.id}`
  }

  async #verb(method: string, verb: string, body?: object): Promise<Run> {
    return new Run(
      this.#transport,
      (await this.#transport.json(method, `${this.#path}${verb}`, body)) as RunView,
    )
  }
}
