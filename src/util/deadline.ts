/** Joins a caller's signal with a time limit. The timer is released when the work settles. */
export async function withTimeout<T>(
  ms: number,
  signal: AbortSignal | undefined,
  work: (signal: AbortSignal) => Promise<T>,
  onTimeout: () => Error,
): Promise<T> {
  const own = new AbortController()
  const timer = setTimeout(() => own.abort(onTimeout()), ms)
  const joined = signal ? AbortSignal.any([signal, own.signal]) : own.signal
  try {
    return await raceAbort(work(joined), joined)
  } finally {
    clearTimeout(timer)
  }
}

/** Settles with the work, or rejects as soon as the signal aborts. */
export function raceAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    if (signal.aborted) {
      onAbort()
    } else {
      signal.addEventListener('abort', onAbort, { once: true })
    }
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort))
  })
}
