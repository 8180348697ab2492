/** What an agent is told, sent in order: whatever the journal has and the agent has not got yet. */
import type { Live } from '../engine/context.ts'
import { inputAccepted, sendInput } from '../guest/conversation.ts'
import type { RunJournal } from '../store/run-journal.ts'
import { ignore, type Log } from '../telemetry/log.ts'

/** Of one turn. */
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
  /** Bytes that it has taken; asked of the sandbox first, since another server may have sent some. */
  #sent: number | undefined
  /** Whether somebody waits for what is being sent: that one sends everything. */
  #isWaiting = false

  constructor(o: InputOptions) {
    this.#o = o
  }

  send({ guest, ended }: Live): void {
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
        await sendInput(guest, tag, sent, all.subarray(sent), signal)
        this.#sent = all.length
      } catch (error) {
        this.#sent = undefined
        if (!signal.aborted) ignore(log, error, `run ${runId} does not take what it is told`)
      }
    })
  }
}
