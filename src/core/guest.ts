/**
 * Our handle on the inside of a running sandbox. The engine calls `configure` first and then uses the groups:
 * processes, files, archives. An API that speaks envd's protocol translates each request into these calls. A
 * guest that speaks envd's protocol itself offers `passThrough` and gets the bytes unchanged.
 *
 * Errors are AgentPodErrors. `unavailable`: the guest cannot be reached, or the connection broke. `canceled`:
 * the signal aborted. `unsupported`: this guest has no such call. Every other code is a refusal of the guest
 * itself.
 */
import type { Duplex, Readable } from 'node:stream'
import type { CallOptions, GuestCall } from './call.ts'
import type { GuestArchive, GuestFiles } from './guest-files.ts'
import type { GuestProcesses } from './guest-process.ts'

export interface Guest {
  /** Resolves when the guest answers; `unavailable` if it does not in time. */
  health(o: CallOptions): Promise<void>
  /** Configures the sandbox; may be repeated. */
  configure(init: GuestInit, o: CallOptions): Promise<void>
  stats(o: CallOptions): Promise<GuestStats>
  /** A byte stream to a port inside; `unavailable` with reason `port.closed` if nothing listens there. */
  dial(port: number, o: CallOptions): Promise<Duplex>
  /** Closes idle connections. The sandbox runs on. Idempotent. */
  close(): void
  readonly processes: GuestProcesses
  readonly files: GuestFiles
  readonly archive: GuestArchive
  /** Left out by a guest that cannot end its sandbox. Such a guest ignores the lease in `configure`. */
  readonly lease?: GuestLeases | undefined
  /**
   * One request of envd's protocol (spec/guest-protocol.md), streamed both ways with back-pressure. Left out
   * by a guest that does not speak it. `unavailable` if the guest cannot be reached. Aborting the signal cuts
   * the exchange.
   */
  passThrough?(request: GuestRequest, o: GuestCall): Promise<GuestResponse>
}

export interface GuestLeases {
  /** Replaces the lease. Idempotent. */
  renew(lease: GuestLease, o: CallOptions): Promise<void>
}

export interface GuestInit {
  readonly env: Readonly<Record<string, string>>
  readonly defaultUser: string
  readonly defaultWorkdir: string
  readonly sudo: boolean
  readonly lease: GuestLease
  readonly trust?: GuestTrust | undefined
  /** Whether a part of envd answers programs inside, at localhost:49983. */
  readonly envd?: boolean | undefined
}

/** Certificates that programs inside trust besides those of the root file system, as PEM. */
export interface GuestTrust {
  readonly ca: string
  readonly roots: string
  /** Whether the guest continues from saved memory, and so usually has them. */
  readonly isContinued?: boolean | undefined
}

/** How long the guest keeps the sandbox running without a server. Zero means no limit. */
export interface GuestLease {
  readonly remainingMs: number
  readonly idleMs: number
}

export interface GuestStats {
  readonly cpuMs: number
  readonly memBytes: number
  readonly pids: number
  readonly processes: number
  readonly uptimeMs: number
  readonly idleForMs: number
}

export interface GuestRequest {
  readonly method: string
  /** Path and query, as sent to the guest. */
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly body?: Readable | undefined
}

export interface GuestResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Readable
}
