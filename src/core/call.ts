/** What every call that leaves the process carries. */
export interface CallOptions {
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs: number
}
