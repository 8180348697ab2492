/** Network refusals of a run: reported, and turned into questions where an answer can help. */
import { decidePermission } from '../agents/permissions/permissions.ts'
import type { SandboxId } from '../core/id.ts'
import { LOCAL, type Principal } from '../core/principal.ts'
import type { PermissionAbout, RunEventBody } from '../core/run.ts'
import { ignore } from '../telemetry/log.ts'
import type { RunsParts } from './parts.ts'
import { isNetworkQuestion, NETWORK_QUESTION } from './progress.ts'
import type { RunRecord } from './record.ts'
import { isFull } from './transcript.ts'

/** Refusals that an answer can change: no rule mentions the host. */
const ANSWERABLE: ReadonlySet<string> = new Set(['rule.none'])
const KEEPALIVE_MS = 60_000
/**
 * SECURITY: CP-16. Host names are free, so a program that tries a million of them must not cause a million
 * questions.
 */
const MOST_OPEN = 32

export class NetworkWatch {
  readonly #parts: Pick<RunsParts, 'engine' | 'clock' | 'log'>
  readonly #record: RunRecord
  readonly #asker: Principal
  readonly #chatter: ReadonlySet<string>
  /** Hosts that could not be reached and were reported. */
  readonly #told = new Set<string>()
  readonly #onQuestion: () => void

  constructor(
    parts: Pick<RunsParts, 'engine' | 'clock' | 'log'>,
    o: {
      readonly record: RunRecord
      readonly asker: Principal
      /** Hosts that the agent contacts on its own and does not need. */
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

  /** Follows the decisions of the sandbox until the signal aborts. */
  async follow(sandboxId: SandboxId, signal: AbortSignal): Promise<void> {
    const { engine, log } = this.#parts
    const after = this.#record.progress.netSeq
    try {
      const o = { after, type: 'network.decision', keepaliveMs: KEEPALIVE_MS, signal } as const
      for await (const batch of engine.events.follow(sandboxId, o, LOCAL))
        for (const { seq, data } of batch) this.#decided(seq, data)
    } catch (error) {
      if (!signal.aborted)
        ignore(log, error, 'network refusals of the run are only in the log of its sandbox')
    }
  }

  /** Reads the last decisions. Asking for the counts makes the egress process send all of them first. */
  async settle(sandboxId: SandboxId): Promise<void> {
    const { engine, log } = this.#parts
    try {
      await engine.networks.counts(sandboxId, LOCAL)
      const late = engine.events.list(sandboxId, this.#record.progress.netSeq, LOCAL, 'network.decision')
      for (const { seq, data } of late) this.#decided(seq, data)
    } catch (error) {
      ignore(log, error, 'the last network refusals of the run are only in the log of its sandbox')
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
    const permission = `${NETWORK_QUESTION}${netSeq}`
    const decision = this.#isAsked(subject, reason) ? decidePermission(record.run.permissions, about) : 'deny'
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

  /** Reports a host that does not answer, once: an agent may not mention it until its time is over. */
  #unreached({ verdict, host, port, message }: Readonly<Record<string, unknown>>): RunEventBody[] {
    const place = `${host}:${port}`
    if (verdict !== 'failed' || this.#told.has(place) || this.#told.size >= MOST_OPEN) return []
    this.#told.add(place)
    return [{ type: 'note', text: `${place} could not be reached: ${message}` }]
  }

  /** Refusals of hosts that the agent contacts on its own are only in the log of its sandbox. */
  #isChatter({ host, reason }: Readonly<Record<string, unknown>>): boolean {
    return ANSWERABLE.has(String(reason)) && this.#chatter.has(String(host))
  }

  /** A permission rule allows the host: adds it to the policy, so the next attempt gets through. */
  async #open(permission: string, about: PermissionAbout): Promise<void> {
    const { engine, log } = this.#parts
    const { sandboxId } = this.#record.run
    if (sandboxId === undefined) return
    try {
      // SECURITY: limited to what the caller who started the run may allow.
      await engine.networks.change(sandboxId, { allow: [about.subject] }, this.#asker)
      this.#record.report([{ type: 'permission.answered', permission, about, answer: 'allow', by: 'rule' }])
    } catch (error) {
      ignore(log, error, 'a host that a rule allows could not be added')
    }
  }

  /** Ask once per host, and not after the agent has ended: an answer would have no effect. */
  #isAsked(subject: string, reason: string): boolean {
    const { run, progress } = this.#record
    const open = progress.questions.filter(isNetworkQuestion)
    if (open.length >= MOST_OPEN || isFull(progress.transcriptBytes)) return false
    const isOpen = open.some(({ about }) => about.subject === subject)
    return !isOpen && run.state !== 'finishing' && ANSWERABLE.has(reason)
  }
}
