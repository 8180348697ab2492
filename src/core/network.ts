/** What a sandbox may reach, as it is written down; `policy/` decides by it. */
import type { Tokens } from './run.ts'

export const NETWORK_MODES = ['off', 'allowlist', 'open'] as const
export type NetworkMode = (typeof NETWORK_MODES)[number]

export type RuleSource = 'create' | 'live' | 'user' | 'project' | `preset ${string}` | `secret ${string}`

export interface Budget {
  readonly bytes?: number | undefined
  readonly requestsPerMinute?: number | undefined
}

/** A grant or a denial as somebody wrote it. */
export interface NetworkRule {
  readonly host: string
  readonly ports?: readonly number[] | undefined
  readonly methods?: readonly string[] | undefined
  readonly paths?: readonly string[] | undefined
  /** Whether the name may lead to a private address. */
  readonly private?: boolean | undefined
  readonly budget?: Budget | undefined
  readonly source: RuleSource
  /** The grant that it was cut from: its budget is one for all that are. */
  readonly within?: NetworkRule | undefined
}

/** Addresses, for callers who think in them: CIDR blocks or single addresses, checked after a name is resolved. */
export interface AddressLists {
  readonly allowed: readonly string[]
  readonly denied: readonly string[]
  /** Single servers that a person named, each an address with a port; they may be private. */
  readonly named?: readonly string[] | undefined
}

/** Which TLS is opened: where rules on requests or secrets need it, or all of it. */
export const INTERCEPTIONS = ['needed', 'all'] as const
export type Interception = (typeof INTERCEPTIONS)[number]

export interface NetworkSpec {
  readonly mode: NetworkMode
  readonly rules: readonly NetworkRule[]
  readonly denied: readonly NetworkRule[]
  /** Names of the owner's secrets that it holds placeholders for. */
  readonly secrets: readonly string[]
  readonly intercept: Interception
  readonly addresses?: AddressLists | undefined
  /** Headers that the way out sets on requests to a host; only where TLS is opened, or there is none. */
  readonly headers?: readonly HeaderRule[] | undefined
  /** Whether packages that it downloads are kept outside, for whoever downloads them next. */
  readonly cache?: boolean | undefined
  /** Whether what models are asked for with its secrets is counted, by what they answer. */
  readonly meter?: boolean | undefined
}

export interface HeaderRule {
  readonly host: string
  readonly headers: Readonly<Record<string, string>>
}

/** What a key's sandboxes may have at most. Rules left out: any may be asked for. */
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
 * How the provider leads a sandbox's connections to the way out. `native`: they do not pass it, the provider's own rules hold.
 * `none`: nothing leaves.
 */
export interface NetworkLevel {
  readonly level: 'transparent' | 'proxy' | 'native' | 'none'
  readonly reason?: string | undefined
}

/** What is kept of a sandbox's way out, beside what its spec asks for. */
export interface SandboxLink extends NetworkLevel {
  /** The certificate authority it trusts. The key is sealed. */
  readonly authority?: { readonly cert: string; readonly sealedKey: string } | undefined
  /** By the name of the secret. Made for this sandbox, and never another's. */
  readonly placeholders: Readonly<Record<string, string>>
}

export const VERDICTS = ['allowed', 'denied', 'failed'] as const
export type Verdict = (typeof VERDICTS)[number]

/** One decision of the way out, or several equal ones. Times are unix milliseconds. */
export interface NetRecord {
  readonly sandboxId: string
  readonly at: number
  readonly until: number
  readonly count: number
  readonly verdict: Verdict
  /** A stable dotted word. */
  readonly reason: string
  /** The host or address asked for, or `(malformed)`; always printable. */
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

/** What one answer of a model has taken, as the answer itself tells it. */
export interface ModelUsage extends Tokens {
  /** As the answer names it; always printable. */
  readonly model: string
  /** The status of an answer that was no answer, such as 401 or 429; nothing was used then. */
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
