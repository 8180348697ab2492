/** The only place that reads the clock and sets timers, so that tests can control time. */
export interface Clock {
  /** Unix milliseconds. */
  now(): number
  /**
   * Calls `fn` once after `ms`; returns a function that cancels it. A timer never keeps the process alive.
   */
  after(ms: number, fn: () => void): () => void
}

/** The longest timer of Node; a longer wait uses several. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  after(ms, fn) {
    let timer: NodeJS.Timeout
    const arm = (left: number): void => {
      const step = Math.min(Math.max(left, 0), LONGEST_TIMER_MS)
      timer = setTimeout(() => (left > step ? arm(left - step) : fn()), step)
      timer.unref()
    }
    arm(ms)
    return () => clearTimeout(timer)
  },
}

/** Resolves after `ms`, or rejects with the signal's reason as soon as it aborts. */
export function sleep(clock: Clock, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason)
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    })
    const onAbort = (): void => {
      cancel()
      reject(signal?.reason)
    }
    signal?.addEventListener('abort', onAbort, { once: true })
  })
}
