/** Timings of several cases taken in turn, so that a busy moment of the machine falls on all of them. */

export interface Case {
  readonly name: string
  /** One timed go, in milliseconds. */
  once(): Promise<number>
}

export interface Summary {
  readonly name: string
  readonly count: number
  readonly p50: number
  readonly p95: number
  readonly min: number
}

/** From the beginning of a create to the first output of its first command, and to the end of everything. */
export interface Life {
  readonly firstOutputMs: number
  readonly lifeMs: number
}

/** Lives one after another, without pauses. */
export interface Loop {
  readonly eachMs: number
  /** Processor time of one life; undefined where a daemon does part of the work. */
  readonly processorMs: number | undefined
}

/** Ends a run of the benchmarks at its next measurement, so that everything it made is removed. */
const stopping = new AbortController()

export function stopMeasuring(signal: NodeJS.Signals): void {
  stopping.abort(new Error(`stopped by ${signal}`))
}

export async function roundRobin(cases: readonly Case[], rounds: number, warmUps = 2): Promise<Summary[]> {
  const samples = await inTurn(cases, rounds, warmUps)
  return samples.map(({ name, values }) => summarize(name, values))
}

/** What each case gave in each round; the warm-ups do not count. */
export async function inTurn<T>(
  cases: readonly { readonly name: string; once(): Promise<T> }[],
  rounds: number,
  warmUps = 2,
): Promise<{ readonly name: string; readonly values: readonly T[] }[]> {
  const samples = cases.map(({ name, once }) => ({ name, once, values: [] as T[] }))
  for (let round = -warmUps; round < rounds; round++) {
    for (const { once, values } of samples) {
      stopping.signal.throwIfAborted()
      const value = await once()
      if (round >= 0) values.push(value)
    }
  }
  return samples
}

export function summarize(name: string, samples: readonly number[]): Summary {
  const sorted = [...samples].sort((a, b) => a - b)
  const at = (part: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
  return { name, count: sorted.length, p50: at(0.5), p95: at(0.95), min: at(0) }
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  stopping.signal.throwIfAborted()
  const start = performance.now()
  await work()
  return performance.now() - start
}
