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

export async function roundRobin(cases: readonly Case[], rounds: number, warmUps = 2): Promise<Summary[]> {
  const samples = new Map(cases.map(({ name }) => [name, [] as number[]]))
  for (let round = -warmUps; round < rounds; round++) {
    for (const one of cases) {
      const ms = await one.once()
      if (round >= 0) samples.get(one.name)?.push(ms)
    }
  }
  return cases.map(({ name }) => summarize(name, samples.get(name) ?? []))
}

export function summarize(name: string, samples: readonly number[]): Summary {
  const sorted = [...samples].sort((a, b) => a - b)
  const at = (part: number): number =>
    sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
  return { name, count: sorted.length, p50: at(0.5), p95: at(0.95), min: at(0) }
}

export async function timed(work: () => Promise<unknown>): Promise<number> {
  const start = performance.now()
  await work()
  return performance.now() - start
}
