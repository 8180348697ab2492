/** The network of a sandbox as it is stored. `policy/` makes decisions from it. */
import type { Tokens } from './run.ts'

export const NETWORK_MODES = ['off', 'allowlist', 'open'] as const
export type NetworkMode = (typeof NETWORK_MODES)[number]

export type RuleSource = 'create' | 'live' | 'user' | 'project' | `preset ${string}` | `secret ${string}`

export interface Budget {
  readonly bytes?: number | undefined
  readonly requestsPerMinute?: number | undefined
}

/** A grant or a denial as written by a user. */
export interface NetworkRule {
  readonly host: string
  readonly ports?: readonly number[] | undefined
  readonly methods?: readonly string[] | undefined
  readonly paths?: readonly string[] | undefined
  /** Whether the name may resolve to a private address. */
  readonly private?: boolean | undefined
  readonly budget?: Budget | undefined
  readonly source: RuleSource
  /** The grant that this rule was narrowed from. All rules from one grant share its budget. */
  readonly within?: NetworkRule | undefined
}

/** Rules about addresses: CIDR blocks or single addresses, checked after a name is resolved. */
export interface AddressLists {
  readonly allowed: readonly string[]
  readonly denied: readonly string[]
  /** Single servers that a person named, each an address with a port; they may be private. */
  readonly named?: readonly string[] | undefined
}

/** Which TLS connections are opened: those where secrets or rules about requests need it, or all. */
export const INTERCEPTIONS = ['needed', 'all'] as const
export type Interception = (typeof INTERCEPTIONS)[number]

export interface NetworkSpec {
  readonly mode: NetworkMode
  readonly rules: readonly NetworkRule[]
  readonly denied: readonly NetworkRule[]
  /** Names of the owner's secrets that the sandbox has placeholders for. */
  readonly secrets: readonly string[]
  readonly intercept: Interception
  readonly addresses?: AddressLists | undefined
  /** Headers that the egress process sets on requests to a host; only for opened TLS and plain HTTP. */
  readonly headers?: readonly HeaderRule[] | undefined
  /** Whether downloaded packages are cached outside the sandbox for later downloads. */
  readonly cache?: boolean | undefined
  /** Whether model usage with its secrets is counted, from the answers of the models. */
  readonly meter?: boolean | undefined
}

export interface HeaderRule {
  readonly host: string
  readonly headers: Readonly<Record<string, string>>
}

/** The most that a key's sandboxes may have. Without rules, any rule may be asked for. */
export interface NetworkCap {
  readonly mode: NetworkMode
  readonly rules?: readonly NetworkRule[] | undefined
}

export const DEFAULT_NETWORK: NetworkSpec = {
  mode: 'allowlist',
  rules: [],
  denied: [],
  secrets: [],
  intercept: 'needed',
}

/**
 * How connections of a sandbox reach the egress process. `native`: they do not, and the rules of the provider
 * apply. `none`: nothing leaves the sandbox.
 */
export interface NetworkLevel {
  readonly level: 'transparent' | 'proxy' | 'native' | 'none'
  readonly reason?: string | undefined
}

/** What is stored about the egress link of a sandbox, besides its spec. */
export interface SandboxLink extends NetworkLevel {
  /** The certificate authority that the sandbox trusts. Its key is sealed. */
  readonly authority?: { readonly cert: string; readonly sealedKey: string } | undefined
  /** By the name of the secret. Made for this sandbox, and never reused. */
  readonly placeholders: Readonly<Record<string, string>>
}

export const VERDICTS = ['allowed', 'denied', 'failed'] as const
export type Verdict = (typeof VERDICTS)[number]

/** One decision of the egress process, or several equal ones. Times are unix milliseconds. */
export interface NetRecord {
  readonly sandboxId: string
  readonly at: number
  readonly until: number
  readonly count: number
  readonly verdict: Verdict
  /** A stable dotted word. */
  readonly reason: string
  /** The requested host or address, or `(malformed)`; always printable. */
  readonly host: string
  readonly port: number
  readonly method?: string | undefined
  readonly path?: string | undefined
  readonly via: 'direct' | 'http' | 'connect' | 'socks'
  readonly rule?: string | undefined
  readonly message: string
  readonly bytesIn: number
  readonly bytesOut: number
}

/** The usage of one model answer, as the answer itself reports it. */
export interface ModelUsage extends Tokens {
  /** As named in the answer; always printable. */
  readonly model: string
  /** The HTTP status of a refusal, such as 401 or 429; nothing was used then. */
  readonly refusal?: number | undefined
}

export interface UsageRecord extends ModelUsage {
  readonly sandboxId: string
}

export interface NetCounts {
  readonly connections: number
  readonly open: number
  readonly allowed: number
  readonly denied: number
  readonly failed: number
  /** Into the sandbox. */
  readonly bytesIn: number
  /** Out of it. */
  readonly bytesOut: number
}
