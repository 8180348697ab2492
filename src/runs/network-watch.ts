/** What a run was refused on its way out: told, and asked about where somebody may say yes. */
import { decide } from '../agents/permissions.ts'
import type { SandboxId } from '../core/id.ts'
import type { Principal } from '../core/principal.ts'
import type { PermissionAbout, RunEventBody } from '../core/run.ts'
import { ignore } from '../telemetry/log.ts'
import type { RunsParts } from './parts.ts'
import { isOfWayOut, WAY_OUT } from './progress.ts'
import type { RunRecord } from './record.ts'
import { isFull } from './transcript.ts'

/** Refusals that a yes can change: nobody has said anything about that host. */
const ANSWERABLE: ReadonlySet<string> = new Set(['rule.none'])
const KEEPALIVE_MS = 60_000
/** SECURITY: CP-16. Names are free: whoever tries a million of them is refused without a question. */
const MOST_OPEN = 32

export class NetworkWatch {
  readonly #parts: Pick<RunsParts, 'engine' | 'clock' | 'log'>
  readonly #record: RunRecord
  readonly #asker: Principal
  readonly #chatter: ReadonlySet<string>
  /** Places that could not be reached, and were told. */
  readonly #told = new Set<string>()
  readonly #onQuestion: () => void

  constructor(
    parts: Pick<RunsParts, 'engine' | 'clock' | 'log'>,
    o: {
      readonly record: RunRecord
      readonly asker: Principal
      /** Hosts that the agent can do without. */
      readonly chatter?: readonly string[] | undefined
      onQuestion(): void
    },
  ) {
    this.#parts = parts
    this.#record = o.record
    this.#asker = o.asker
    this.#chatter = new Set(o.chatter ?? [])
    this.#onQuestion = o.onQuestion
  }

  /** Until the signal says so. */
  async follow(sandboxId: SandboxId, signal: AbortSignal): Promise<void> {
    const { engine, log } = this.#parts
    const after = this.#record.progress.netSeq
    try {
      const o = { after, type: 'network.decision', keepaliveMs: KEEPALIVE_MS, signal } as const
      for await (const batch of engine.follow(sandboxId, o))
        for (const { seq, data } of batch) this.#decided(seq, data)
    } catch (error) {
      if (!signal.aborted) ignore(log, error, 'what a run is refused is in the log of its sandbox alone')
    }
  }

  /** The last decisions and counts are on their way for a moment: the way out tells all of them before it answers. */
  async settle(sandboxId: SandboxId): Promise<void> {
    const { engine, log } = this.#parts
    try {
      await engine.networks.counts(sandboxId)
      const late = engine.events(sandboxId, this.#record.progress.netSeq, undefined, 'network.decision')
      for (const { seq, data } of late) this.#decided(seq, data)
    } catch (error) {
      ignore(log, error, 'what a run was refused last is in the log of its sandbox alone')
    }
  }

  #decided(netSeq: number, data: Readonly<Record<string, unknown>>): void {
    const record = this.#record
    if (netSeq <= record.progress.netSeq) return
    if (data['verdict'] !== 'denied' || this.#isChatter(data)) {
      record.advance({ netSeq }, this.#unreached(data))
      return
    }
    const [host, port, reason] = [String(data['host']), Number(data['port']), String(data['reason'])]
    const denied: RunEventBody = {
      type: 'network.denied',
      host,
      port,
      reason,
      count: Number(data['count'] ?? 1),
    }
    record.save({ denials: record.run.denials + 1 })
    const subject = `${host}:${port}`
    const about = { kind: 'network' as const, subject, title: `reach ${subject}` }
    const permission = `${WAY_OUT}${netSeq}`
    const decision = this.#isAsked(subject, reason) ? decide(record.run.permissions, about) : 'deny'
    if (decision === 'deny') {
      record.advance({ netSeq }, [denied])
      return
    }
    if (decision === 'allow') {
      record.advance({ netSeq }, [denied])
      void this.#open(permission, about)
      return
    }
    const question = { permission, about, askedAt: this.#parts.clock.now() }
    record.advance({ netSeq, questions: [...record.progress.questions, question] }, [
      denied,
      { type: 'permission.asked', permission, about },
    ])
    this.#onQuestion()
  }

  /** A host that does not answer, told once: an agent may say nothing of it until its time is over. */
  #unreached({ verdict, host, port, message }: Readonly<Record<string, unknown>>): RunEventBody[] {
    const place = `${host}:${port}`
    if (verdict !== 'failed' || this.#told.has(place) || this.#told.size >= MOST_OPEN) return []
    this.#told.add(place)
    return [{ type: 'note', text: `${place} could not be reached: ${message}` }]
  }

  /** What is refused beside that it asks for by itself is in the log of its sandbox. */
  #isChatter({ host, reason }: Readonly<Record<string, unknown>>): boolean {
    return ANSWERABLE.has(String(reason)) && this.#chatter.has(String(host))
  }

  /** A rule says yes to what the policy said nothing about: the next try gets through. */
  async #open(permission: string, about: PermissionAbout): Promise<void> {
    const { engine, log } = this.#parts
    const { sandboxId } = this.#record.run
    if (sandboxId === undefined) return
    try {
      // SECURITY: as far as whoever asked for the run may open hosts themselves.
      await engine.networks.change(sandboxId, { allow: [about.subject] }, this.#asker)
      this.#record.tell([{ type: 'permission.answered', permission, about, answer: 'allow', by: 'rule' }])
    } catch (error) {
      ignore(log, error, 'what a rule allows stays closed')
    }
  }

  /** Once about each host, and not when the agent has ended: an answer would help nobody. */
  #isAsked(subject: string, reason: string): boolean {
    const { run, progress } = this.#record
    const open = progress.questions.filter(isOfWayOut)
    if (open.length >= MOST_OPEN || isFull(progress.transcriptBytes)) return false
    const isOpen = open.some(({ about }) => about.subject === subject)
    return !isOpen && run.state !== 'finishing' && ANSWERABLE.has(reason)
  }
}
