import type { Rate } from '../api/http/rate-limit.ts'
import type { OwnerLabel } from '../core/id.ts'
import type { Provider } from '../core/provider.ts'
import type { Log } from '../telemetry/log.ts'
import type { BundledPrograms } from './bundled-programs.ts'
import type { TcpOptions } from './listeners.ts'

export interface ServerOptions {
  readonly home: string
  readonly version: string
  /** Undefined if the server runs from source. */
  readonly build?: string | undefined
  readonly programs: BundledPrograms
  /** Exit after this long without a busy sandbox and without a request; 0 never exits. */
  readonly idleExitMs: number
  readonly tcp?: TcpOptions | undefined
  /** Domains whose subdomains are sandboxes, besides localhost. */
  readonly domains?: readonly string[] | undefined
  /** Further host names of the API. */
  readonly names?: readonly string[] | undefined
  readonly limits?: ServerLimits | undefined
  /** A company's HTTP proxy for all egress. That proxy then resolves and checks addresses. */
  readonly upstreamProxy?: string | undefined
  /** A bundle of the certificates that this machine trusts, if it is not at a usual place. */
  readonly trustFile?: string | undefined
  /** Further providers, besides the built-in ones. */
  readonly providers?: readonly ProviderFactory[] | undefined
  /** The provider of requests that name none; the one on this machine if left out. */
  readonly defaultProvider?: string | undefined
  /** How many blank shells are kept ready for sandboxes. */
  readonly shells?: number | undefined
  writeLog(line: string): void
}

/** What the server gives to a provider. */
export interface ProviderParts {
  /** The state directory. */
  readonly home: string
  /** The program to run inside a sandbox. */
  readonly podd: string
  /** The label for everything that the provider makes for this server. */
  readonly owner: OwnerLabel
  readonly log: Log
}

export type ProviderFactory = (parts: ProviderParts) => Provider

/** Limits per key, unless they say otherwise. Everything left out has a default. */
export interface ServerLimits {
  /** Control-plane requests. */
  readonly rate?: Rate | undefined
  /** Existing sandboxes. */
  readonly living?: number | undefined
  /** Simultaneous connections into its sandboxes. */
  readonly connections?: number | undefined
  /** Agents at work at the same time, of all keys together; the others wait. */
  readonly runs?: number | undefined
  /** Stopped sandboxes of ended runs, kept for follow-ups. */
  readonly keptRuns?: number | undefined
  /** How long the start command of a template may take until it is ready. */
  readonly templateReadyMs?: number | undefined
}
