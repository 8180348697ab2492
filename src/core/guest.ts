/**
 * Our handle on the inside of a running sandbox. The data plane (processes, files, terminals, ports) is envd's protocol
 * and passes through `forward` as bytes; the rest is what the engine itself needs.
 */
import type { Duplex, Readable } from 'node:stream'
import type { CallOptions } from './call.ts'

export interface GuestInit {
  readonly env: Readonly<Record<string, string>>
  readonly defaultUser: string
  readonly defaultWorkdir: string
  readonly sudo: boolean
  readonly lease: GuestLease
  /** Certificates that programs inside shall trust besides those of the root file system, PEM. */
  readonly trust?: { readonly ca: string; readonly roots: string } | undefined
  /** Whether a part of envd answers programs inside, at localhost:49983. */
  readonly envd?: boolean | undefined
}

/** How long the guest lives on by itself. Zero means no such limit. */
export interface GuestLease {
  readonly remainingMs: number
  readonly idleMs: number
}

export interface GuestUsage {
  readonly cpuMs: number
  readonly memBytes: number
  readonly pids: number
  readonly processes: number
  readonly uptimeMs: number
  readonly idleForMs: number
}

export interface GuestRequest {
  readonly method: string
  /** Path and query, as the guest shall see them. */
  readonly path: string
  readonly headers: Readonly<Record<string, string | string[]>>
  readonly body?: Readable | undefined
}

export interface GuestResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Readable
}

export interface Guest {
  /** Resolves when the guest answers; `unavailable` when it does not within the deadline. */
  health(o: CallOptions): Promise<void>
  /** Sets what the sandbox is; may be repeated. */
  configure(init: GuestInit, o: CallOptions): Promise<void>
  /** Replaces the lease. Idempotent. */
  renew(lease: GuestLease, o: CallOptions): Promise<void>
  usage(o: CallOptions): Promise<GuestUsage>
  /**
   * One exchange of the data plane, streamed both ways with back-pressure. `unavailable` when the guest cannot be reached.
   * Aborting the signal cuts the exchange.
   */
  forward(request: GuestRequest, o: { readonly signal: AbortSignal }): Promise<GuestResponse>
  /** A byte stream to a port inside; `unavailable` with reason `port.closed` when nothing listens there. */
  dial(port: number, o: CallOptions): Promise<Duplex>
  /** Closes idle connections. The sandbox lives on. Idempotent. */
  close(): void
}
