/** One sandbox's way out: what is said about it, what it has open, and what it has used. It knows no streams of its own. */
import type { NetCounts, NetRecord, Verdict as Outcome } from '../core/network.ts'
import { describeRule, type HostPattern, matchesHost } from '../policy/rule.ts'
import type { Clock } from '../util/clock.ts'
import { Budgets } from './budget.ts'
import { Cap } from './cap.ts'
import type { LinkSpec } from './control.ts'
import type { Dial } from './dial.ts'
import { Agents } from './http-agent.ts'
import { type AskedRequest, type Blocks, type Judgement, judge, parseBlocks } from './judge.ts'
import type { Log } from './log.ts'
import { NameFlood } from './name-flood.ts'
import type { OwnAddresses } from './own-address.ts'
import type { PackageCache } from './package-cache.ts'
import { findRoute, follow, type Reached, type ReachParts, type Route } from './reach.ts'
import { type Entry, Records } from './records.ts'
import { denied } from './refusal.ts'
import { Lookups, type Resolve } from './resolve.ts'
import { hostText, MALFORMED, type Target, type Via } from './target.ts'
import type { UpstreamProxy } from './upstream-proxy.ts'
import { type DeliverUsage, UsageRecords } from './usage-records.ts'

/** What all links share. */
export interface LinkParts {
  readonly clock: Clock
  readonly log: Log
  readonly resolve: Resolve
  readonly dial: Dial
  readonly ownAddresses: OwnAddresses
  readonly upstreamProxy?: UpstreamProxy | undefined
  /** Authorities that are trusted besides the system's, as PEM. */
  readonly trusted?: readonly string[] | undefined
  readonly packages?: PackageCache | undefined
  /** Takes records; false where nobody is there to. */
  readonly deliver: (records: readonly NetRecord[]) => boolean
  readonly deliverUsage: DeliverUsage
}

/** Something under way that a new policy may end. */
export interface Open {
  /** Asked after each change; what says no is cut. */
  mayGoOn(): boolean
  cut(): void
  /** Bytes since it was asked last. */
  settle(): void
}

export interface Noted {
  readonly outcome: Outcome
  /** Absent where what was asked for is no target. */
  readonly target?: Target | undefined
  readonly via: Via
  readonly reason: string
  readonly message: string
  readonly judgement?: Judgement | undefined
  readonly request?: AskedRequest | undefined
}

const SETTLE_MS = 5000
export const MOST_DIALLED = 512

export class Link {
  readonly sandbox: string
  readonly parts: LinkParts
  readonly cap: Cap
  readonly budgets: Budgets
  readonly records: Records
  readonly usage: UsageRecords
  readonly agents = new Agents()
  readonly #lookups: Lookups
  readonly #flood: NameFlood
  readonly #open = new Set<Open>()
  readonly #ended = new AbortController()
  readonly #counts = { connections: 0, allowed: 0, denied: 0, failed: 0, bytesIn: 0, bytesOut: 0 }
  #cancelSettle: (() => void) | undefined
  #dialled = 0
  #spec: LinkSpec
  #blocks: Blocks

  constructor(spec: LinkSpec, parts: LinkParts) {
    this.sandbox = spec.sandbox
    this.parts = parts
    this.#spec = spec
    this.#blocks = parseBlocks(spec.policy.addresses)
    this.cap = new Cap(parts.clock)
    this.budgets = new Budgets(parts.clock)
    this.#lookups = new Lookups(parts.resolve)
    this.#flood = new NameFlood(parts.clock)
    this.records = new Records({ sandbox: spec.sandbox, clock: parts.clock, deliver: parts.deliver })
    this.usage = new UsageRecords({
      sandbox: spec.sandbox,
      clock: parts.clock,
      deliver: parts.deliverUsage,
    })
    this.#settleLater()
  }

  get spec(): LinkSpec {
    return this.#spec
  }

  /** Aborts when the link is closed. */
  get signal(): AbortSignal {
    return this.#ended.signal
  }

  get counts(): NetCounts {
    this.#settle()
    return { ...this.#counts, open: this.cap.open }
  }

  judge(target: Target, request?: AskedRequest): Judgement {
    return judge({ policy: this.#spec.policy, blocks: this.#blocks }, target, request)
  }

  /** Whether requests to a target have to be seen: a rule, a secret or a header of the way out is about them. */
  needsLook(target: Target, judgement: Judgement): boolean {
    if (judgement.reason === 'request.unseen' || this.#spec.intercept === 'all') return true
    const { port } = target
    const text = hostText(target)
    if (this.#spec.secrets.some(({ slot }) => slot.port === port && slot.hosts.includes(text))) return true
    if (target.kind === 'address') return false
    const { host } = target
    return (this.#spec.headers ?? []).some((rule) => matchesHost(rule.host as HostPattern, host))
  }

  /** Counts one connection or request against the budgets of the rule that allows it. Throws where there is nothing left. */
  admit({ rule }: Judgement): void {
    const exhausted = this.budgets.admit(rule)
    if (exhausted === 'budget.rate')
      throw denied(exhausted, 'the requests of this minute are used up', 'wait a minute')
    if (exhausted)
      throw denied(exhausted, 'the bytes that a rule grants are used up', 'ask the user for a larger budget')
  }

  findRoute(target: Target, judgement: Judgement): Promise<Route> {
    return findRoute(this.reachParts, { target, judgement }, this.signal)
  }

  /** SECURITY: one connection from inside may ask for many to the outside; what a sandbox holds of them is bounded on its own. */
  async follow(route: Route, target: Target): Promise<Reached> {
    if (this.#dialled >= MOST_DIALLED)
      throw denied('cap.connections', 'this sandbox has too many connections to servers', 'close some')
    this.#dialled++
    try {
      const reached = await follow(this.parts, { route, target }, this.signal)
      reached.socket.once('close', () => this.#dialled--)
      return reached
    } catch (error) {
      this.#dialled--
      throw error
    }
  }

  /** Resolve, check, dial. The target must have been allowed. */
  async reach(target: Target, judgement: Judgement): Promise<Reached> {
    return this.follow(await this.findRoute(target, judgement), target)
  }

  get reachParts(): ReachParts {
    const { clock, dial, ownAddresses } = this.parts
    return {
      clock,
      dial,
      ownAddresses,
      lookups: this.#lookups,
      flood: this.#flood,
      blocks: this.#blocks,
      proxy: this.parts.upstreamProxy,
    }
  }

  /** Writes a decision down, once. */
  note({ outcome, target, via, reason, message, judgement, request }: Noted): Entry {
    this.#counts[outcome]++
    const isPathDecided = judgement?.rule?.paths !== undefined || reason === 'request.path'
    const entry = this.records.note({
      verdict: outcome,
      reason,
      host: target ? hostText(target) : MALFORMED,
      port: target?.port ?? 0,
      via,
      message: this.parts.upstreamProxy && outcome === 'allowed' ? `${message}, via upstream` : message,
      ...(request && { method: request.method, ...(isPathDecided && { path: request.path }) }),
      ...(judgement?.rule && { rule: describeRule(judgement.rule) }),
    })
    return {
      add: (bytesIn, bytesOut) => {
        this.#counts.bytesIn += bytesIn
        this.#counts.bytesOut += bytesOut
        entry.add(bytesIn, bytesOut)
      },
    }
  }

  connected(): void {
    this.#counts.connections++
  }

  add(open: Open): () => void {
    this.#open.add(open)
    return () => {
      if (this.#open.delete(open)) open.settle()
    }
  }

  /** What is open and would be refused now is cut before this returns. Throws, and changes nothing, where the new one is malformed. */
  update(spec: LinkSpec): void {
    const blocks = parseBlocks(spec.policy.addresses)
    this.#spec = spec
    this.#blocks = blocks
    this.agents.forget()
    for (const open of [...this.#open]) if (!open.mayGoOn()) open.cut()
  }

  close(): void {
    this.#cancelSettle?.()
    this.#ended.abort(new Error('the link is closed'))
    for (const open of [...this.#open]) open.cut()
    this.agents.close()
    this.#settle()
    this.records.close()
    this.usage.flush()
  }

  #settle(): void {
    for (const open of this.#open) open.settle()
  }

  #settleLater(): void {
    this.#cancelSettle = this.parts.clock.after(SETTLE_MS, () => {
      this.#settle()
      this.#settleLater()
    })
  }
}
