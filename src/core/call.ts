/** Options of every call that leaves the process. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs: number
}

/** A call into a sandbox that lasts as long as its caller waits. */
export interface GuestCall {
  readonly signal: AbortSignal
}
