import type { CallOptions } from '../../../core/call.ts'

/** Aborts when the caller gives up or the call times out. */
export function callSignal(o: CallOptions): AbortSignal {
  const timeout = AbortSignal.timeout(o.timeoutMs)
  return o.signal ? AbortSignal.any([o.signal, timeout]) : timeout
}
