/** Sends input to an agent, in order: everything in the journal that the agent has not received. */
import type { GuestConnection } from '../engine/context.ts'
import { inputAccepted, sendInput } from '../guest/conversation.ts'
import type { RunJournal } from '../store/run-journal.ts'
import { ignore, type Log } from '../telemetry/log.ts'

/** Options of one turn. */
export interface InputOptions {
  readonly journal: RunJournal
  readonly log: Log
  readonly runId: string
  readonly turn: number
  readonly tag: string
  readonly signal: AbortSignal
}

export class AgentInput {
  readonly #o: InputOptions
  #sending = Promise.resolve()
  /**
   * Bytes that the agent has accepted. Asked of the sandbox first, because another server may have sent some.
   */
  #sent: number | undefined
  /** Whether a send is queued. It will send everything, so no second one is needed. */
  #isWaiting = false

  constructor(o: InputOptions) {
    this.#o = o
  }

  send({ guest, ended }: GuestConnection): void {
    const { journal, runId, turn, tag, log } = this.#o
    if (this.#isWaiting) return
    this.#isWaiting = true
    const signal = AbortSignal.any([ended.signal, this.#o.signal])
    this.#sending = this.#sending.then(async () => {
      this.#isWaiting = false
      try {
        const all = journal.input(runId, turn)
        const sent = this.#sent ?? (await inputAccepted(guest, tag, signal))
        this.#sent = sent
        if (all.length <= sent) return
        await sendInput(guest, tag, { offset: sent, data: all.subarray(sent) }, signal)
        this.#sent = all.length
      } catch (error) {
        this.#sent = undefined
        if (!signal.aborted) ignore(log, error, `run ${runId} does not take its input`)
      }
    })
  }
}
