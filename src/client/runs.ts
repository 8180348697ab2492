/** Runs of agents on a server. */
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

  /** Starts a run; resolves as soon as the server has recorded it. */
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

/** A run on a server. */
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

  /** At most 1,000 events, oldest first. */
  async events(after = 0): Promise<RunEventView[]> {
    return (await this.#transport.json('GET', `${this.#path}/events?after=${after}`)) as RunEventView[]
  }

  /** Events after `o.after`, live until the run has ended. Reconnects without gaps or repeats. */
  follow(
    o: { readonly after?: number | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): AsyncGenerator<RunEventView> {
    return followStream<RunEventView>(this.#transport, `${this.#path}/events`, {}, o)
  }

  /** The current record. */
  refresh(): Promise<Run> {
    return this.#verb('GET', '')
  }

  /** Waits until the run has ended, and returns its record. */
  async ended(o: { readonly signal?: AbortSignal | undefined } = {}): Promise<Run> {
    for await (const _ of this.follow({ after: Number.MAX_SAFE_INTEGER, ...o })) {
      // Only the end matters.
    }
    return this.refresh()
  }

  cancel(): Promise<Run> {
    return this.#verb('POST', '/cancel')
  }

  /**
   * Sends a follow-up: queued behind the current turn, or started immediately if the run has ended. New
   * limits replace the old ones.
   */
  send(text: string, o: Pick<SendRun, 'limits'> = {}): Promise<Run> {
    return this.#verb('POST', '/messages', { text, ...o })
  }

  answer(permission: string, answer: 'allow' | 'deny'): Promise<Run> {
    return this.#verb('POST', `/permissions/${encodeURIComponent(permission)}`, { answer })
  }

  /** A git pack that was made inside the sandbox. SECURITY: untrusted; check it before use. */
  result(o: { readonly signal?: AbortSignal | undefined } = {}): Promise<IncomingMessage> {
    return this.#transport.open({ method: 'GET', path: `${this.#path}/result`, signal: o.signal })
  }

  async takeOver(): Promise<TakenOverView> {
    return (await this.#transport.json('POST', `${this.#path}/take-over`)) as TakenOverView
  }

  handBack(): Promise<Run> {
    return this.#verb('POST', '/hand-back')
  }

  /** Stops the run, and deletes it with its sandbox and result. */
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
