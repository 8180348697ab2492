/** What every call that leaves the process carries. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs: number
}

/** A call into a sandbox that goes on for as long as somebody waits for it. */
export interface GuestCall {
  readonly signal: AbortSignal
}
