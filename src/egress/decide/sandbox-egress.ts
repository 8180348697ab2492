/**
 * The state of one sandbox in the egress process: its policy and secrets, its open transfers, and what it has
 * used. It owns no streams itself.
 */
import type { NetCounts, NetRecord, Verdict as Outcome } from '../../core/network.ts'
import { describeRule, type HostPattern, matchesHost } from '../../policy/rule.ts'
import type { Log } from '../../telemetry/log.ts'
import type { Clock } from '../../util/clock.ts'
import { BandwidthLimit } from '../../util/stream/bandwidth-limit.ts'
import type { LinkSpec } from '../control/link-spec.ts'
import { type Destination, hostText, MALFORMED, type Via } from '../destination.ts'
import { UpstreamPool } from '../http/upstream-pool.ts'
import { ConnectionLimit } from '../listen/connection-limit.ts'
import type { PackageCache } from '../packages/cache.ts'
import type { Dial } from '../reach/dial.ts'
import type { OwnAddresses } from '../reach/own-address.ts'
import { Lookups, type Resolve } from '../reach/resolve.ts'
import { type DialedConnection, dialRoute, findRoute, type Route, type RouteParts } from '../reach/route.ts'
import type { UpstreamProxy } from '../reach/upstream-proxy.ts'
import { type Occurrence, type RecordEntry, Records } from '../record/records.ts'
import { type DeliverUsage, UsageRecords } from '../record/usage-records.ts'
import { denied } from '../refusal.ts'
import { Budgets } from './budget.ts'
import { type Blocks, type Judgement, type MethodAndPath, parseBlocks } from './judge.ts'
import { JudgementMemory } from './judgement-memory.ts'
import { NameFlood } from './name-flood.ts'

/** What all sandboxes share. */
export interface EgressParts {
  readonly clock: Clock
  readonly log: Log
  readonly resolve: Resolve
  readonly dial: Dial
  readonly ownAddresses: OwnAddresses
  readonly upstreamProxy?: UpstreamProxy | undefined
  /** Certificate authorities that are trusted in addition to Node's, as PEM. */
  readonly trusted?: readonly string[] | undefined
  readonly packages?: PackageCache | undefined
  /** Delivers records to the server; false if no server is connected. */
  readonly deliver: (records: readonly NetRecord[]) => boolean
  readonly deliverUsage: DeliverUsage
}

/** A connection or request in progress, which a new policy may end. */
export interface OpenTransfer {
  /** Called after each policy change; if false, `cut` is called. */
  mayContinue(): boolean
  cut(): void
  /** Adds the bytes since the last call to the record. */
  recordTraffic(): void
}

export interface DecisionNote {
  readonly outcome: Outcome
  /** Absent if the destination could not be parsed. */
  readonly destination?: Destination | undefined
  readonly via: Via
  readonly reason: string
  readonly message: string
  readonly judgement?: Judgement | undefined
  readonly request?: MethodAndPath | undefined
}

const RECORD_TRAFFIC_MS = 5000
export const MOST_DIALED = 512

export class SandboxEgress {
  readonly id: string
  readonly parts: EgressParts
  readonly connectionLimit: ConnectionLimit
  /** For all its connections together; undefined without a limit. */
  readonly bandwidthLimit: BandwidthLimit | undefined
  readonly budgets: Budgets
  readonly records: Records
  readonly usage: UsageRecords
  readonly upstreams = new UpstreamPool()
  readonly #lookups: Lookups
  readonly #flood: NameFlood
  readonly #transfers = new Set<OpenTransfer>()
  /** What was recorded last for a decision that is remembered. */
  readonly #noted = new WeakMap<Judgement, Occurrence>()
  readonly #ended = new AbortController()
  readonly #counts = { connections: 0, allowed: 0, denied: 0, failed: 0, bytesIn: 0, bytesOut: 0 }
  #cancelRecording: (() => void) | undefined
  #dialed = 0
  #spec: LinkSpec
  #blocks: Blocks
  #judgements: JudgementMemory

  constructor(spec: LinkSpec, parts: EgressParts) {
    this.id = spec.sandbox
    this.parts = parts
    this.#spec = spec
    this.#blocks = parseBlocks(spec.policy.addresses)
    this.#judgements = new JudgementMemory(spec.policy, this.#blocks)
    this.connectionLimit = new ConnectionLimit(parts.clock)
    const { bandwidthBytes } = spec
    this.bandwidthLimit =
      bandwidthBytes === undefined ? undefined : new BandwidthLimit(bandwidthBytes, parts.clock)
    this.budgets = new Budgets(parts.clock)
    this.#lookups = new Lookups(parts.resolve)
    this.#flood = new NameFlood(parts.clock)
    this.records = new Records({ sandbox: spec.sandbox, clock: parts.clock, deliver: parts.deliver })
    this.usage = new UsageRecords({
      sandbox: spec.sandbox,
      clock: parts.clock,
      deliver: parts.deliverUsage,
    })
    this.#recordTrafficLater()
  }

  get spec(): LinkSpec {
    return this.#spec
  }

  /** Aborts when the sandbox is closed. */
  get signal(): AbortSignal {
    return this.#ended.signal
  }

  get counts(): NetCounts {
    this.#recordTraffic()
    return { ...this.#counts, open: this.connectionLimit.open }
  }

  judge(destination: Destination, request?: MethodAndPath): Judgement {
    return this.#judgements.judge(destination, request)
  }

  /**
   * Whether requests to a destination must be inspected because a rule, a secret or a header rule applies to
   * them.
   */
  needsInspection(destination: Destination, judgement: Judgement): boolean {
    if (judgement.isMember) return false
    if (judgement.reason === 'request.unseen' || this.#spec.intercept === 'all') return true
    const { port } = destination
    const text = hostText(destination)
    if (this.#spec.secrets.some(({ slot }) => slot.port === port && slot.hosts.includes(text))) return true
    if (destination.kind === 'address') return false
    const { host } = destination
    return (this.#spec.headers ?? []).some((rule) => matchesHost(rule.host as HostPattern, host))
  }

  /** Counts one connection or request against the budgets of its rule. Throws if a budget is used up. */
  admit({ rule }: Judgement): void {
    const exhausted = this.budgets.admit(rule)
    if (exhausted === 'budget.rate')
      throw denied(exhausted, 'the request limit for this minute is connection', 'wait a minute')
    if (exhausted)
      throw denied(exhausted, 'the byte budget of the rule is used up', 'ask the user for a larger budget')
  }

  findRoute(destination: Destination, judgement: Judgement): Promise<Route> {
    return findRoute(this.routeParts, { destination, judgement }, this.signal)
  }

  /**
   * SECURITY: one connection from inside can cause many connections to servers, so these have their own
   * limit.
   */
  async dialRoute(route: Route, destination: Destination): Promise<DialedConnection> {
    if (this.#dialed >= MOST_DIALED)
      throw denied('cap.connections', 'this sandbox has too many open connections to servers', 'close some')
    this.#dialed++
    try {
      const connection = await dialRoute(
        { ...this.parts, from: this.id },
        { route, destination },
        this.signal,
      )
      connection.socket.once('close', () => this.#dialed--)
      return connection
    } catch (error) {
      this.#dialed--
      throw error
    }
  }

  /** Resolves, checks and dials. The caller must have checked that the destination is allowed. */
  async connect(destination: Destination, judgement: Judgement): Promise<DialedConnection> {
    return this.dialRoute(await this.findRoute(destination, judgement), destination)
  }

  get routeParts(): RouteParts {
    const { clock, dial, ownAddresses } = this.parts
    return {
      clock,
      dial,
      ownAddresses,
      lookups: this.#lookups,
      flood: this.#flood,
      blocks: this.#blocks,
      proxy: this.parts.upstreamProxy,
      members: this.#spec.memberSocket,
    }
  }

  /** Records a decision. Called once for each. */
  note(note: DecisionNote): RecordEntry {
    this.#counts[note.outcome]++
    const entry = this.records.note(this.#occurrenceOf(note))
    return {
      add: (bytesIn, bytesOut) => {
        this.#counts.bytesIn += bytesIn
        this.#counts.bytesOut += bytesOut
        entry.add(bytesIn, bytesOut)
      },
    }
  }

  /** Most requests repeat an earlier one, and so does their record. */
  #occurrenceOf(note: DecisionNote): Occurrence {
    const { outcome, via, judgement, request } = note
    if (outcome !== 'allowed' || !judgement) return this.#describe(note)
    const known = this.#noted.get(judgement)
    const isKnown = known?.via === via && known.method === request?.method && known.path === undefined
    if (known && isKnown) return known
    const occurrence = this.#describe(note)
    this.#noted.set(judgement, occurrence)
    return occurrence
  }

  #describe({ outcome, destination, via, reason, message, judgement, request }: DecisionNote): Occurrence {
    const isUpstream = this.parts.upstreamProxy && outcome === 'allowed' && !judgement?.isMember
    const isPathDecided = judgement?.rule?.paths !== undefined || reason === 'request.path'
    return {
      verdict: outcome,
      reason,
      host: destination ? hostText(destination) : MALFORMED,
      port: destination?.port ?? 0,
      via,
      message: isUpstream ? `${message}, via upstream` : message,
      ...(request && { method: request.method, ...(isPathDecided && { path: request.path }) }),
      ...(judgement?.rule && { rule: describeRule(judgement.rule) }),
    }
  }

  connected(): void {
    this.#counts.connections++
  }

  add(open: OpenTransfer): () => void {
    this.#transfers.add(open)
    return () => {
      if (this.#transfers.delete(open)) open.recordTraffic()
    }
  }

  /**
   * Cuts transfers that the new policy refuses before it returns. A malformed spec throws and changes
   * nothing.
   */
  update(spec: LinkSpec): void {
    const blocks = parseBlocks(spec.policy.addresses)
    this.#spec = spec
    this.#blocks = blocks
    this.#judgements = new JudgementMemory(spec.policy, blocks)
    this.upstreams.forget()
    for (const open of [...this.#transfers]) if (!open.mayContinue()) open.cut()
  }

  close(): void {
    this.#cancelRecording?.()
    this.#ended.abort(new Error('the sandbox is closed'))
    for (const open of [...this.#transfers]) open.cut()
    this.upstreams.close()
    this.#recordTraffic()
    this.records.close()
    this.usage.flush()
  }

  #recordTraffic(): void {
    for (const open of this.#transfers) open.recordTraffic()
  }

  #recordTrafficLater(): void {
    this.#cancelRecording = this.parts.clock.after(RECORD_TRAFFIC_MS, () => {
      this.#recordTraffic()
      this.#recordTrafficLater()
    })
  }
}
