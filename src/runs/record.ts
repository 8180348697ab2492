/** The stored form of a run: its public record and its progress. */
import type { Run, RunEventBody, RunState } from '../core/run.ts'
import type { RunsParts } from './parts.ts'
import { nextTurn, type Progress } from './progress.ts'
import { keep } from './transcript.ts'

export class RunRecord {
  readonly #parts: Pick<RunsParts, 'store' | 'journal' | 'clock'>
  readonly #onNews: (id: string) => void
  #run: Run
  #progress: Progress

  constructor(
    parts: Pick<RunsParts, 'store' | 'journal' | 'clock'>,
    o: { readonly run: Run; readonly progress: Progress; onNews(id: string): void },
  ) {
    this.#parts = parts
    this.#run = o.run
    this.#progress = o.progress
    this.#onNews = o.onNews
  }

  get run(): Run {
    return this.#run
  }

  get progress(): Progress {
    return this.#progress
  }

  save(patch: Partial<Run>): void {
    this.#run = { ...this.#run, ...patch }
    this.#parts.store.update(this.#run)
    this.#onNews(this.#run.id)
  }

  /** Changes the record in memory only; the next `save` writes it. */
  note(patch: Partial<Run>): void {
    this.#run = { ...this.#run, ...patch }
  }

  /** Changes the progress in memory; the next step writes it. Losing it does no harm. */
  remember(patch: Partial<Progress>): void {
    this.#progress = { ...this.#progress, ...patch }
  }

  move(state: RunState): void {
    const { outcome, reason } = this.#run
    this.save({ state, turn: this.#progress.turn })
    const ending = state === 'ended' && { ...(outcome && { outcome }), ...(reason && { reason }) }
    this.report([{ type: 'state', state, ...ending }])
  }

  report(events: readonly RunEventBody[]): void {
    this.advance({}, events)
  }

  /** Events, progress and input are one entry of the journal. */
  advance(
    patch: Partial<Progress>,
    events: readonly RunEventBody[] = [],
    send: readonly string[] = [],
  ): void {
    const { events: kept, bytes } = keep(events, this.#progress.transcriptBytes)
    this.#progress = { ...this.#progress, ...patch, transcriptBytes: bytes }
    const data = Buffer.from(send.map((line) => `${line}\n`).join(''))
    this.#parts.journal.write(this.#run.id, {
      at: this.#parts.clock.now(),
      events: kept,
      progress: this.#progress,
      ...(data.length > 0 && { input: { turn: this.#progress.turn, data } }),
    })
    if (kept.length > 0) this.#onNews(this.#run.id)
  }

  /**
   * INVARIANT: the journal has a turn before the run's state does, so no message is lost between the two
   * writes.
   */
  turn(state: RunState, prompt: string, queue: readonly string[]): void {
    this.#progress = nextTurn(this.#progress, prompt, queue)
    this.advance({})
    this.save({ outcome: undefined, reason: undefined, endedAt: undefined, keptUntil: undefined })
    this.move(state)
  }
}
