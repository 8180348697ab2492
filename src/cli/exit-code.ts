/** What a shell is told about runs: one number for each way they may end, none of which a failure of ours has. */
import type { Outcome } from '../core/run.ts'

const EXIT_CODES: Readonly<Record<Outcome, number>> = {
  changed: 0,
  unchanged: 20,
  denied: 21,
  failed: 22,
  timed_out: 23,
  over_budget: 24,
  canceled: 130,
}

export function exitCodeOf(outcome: Outcome): number {
  return EXIT_CODES[outcome]
}

/** Of several, one that changed something is enough; else the first speaks for all. One without an outcome has not ended. */
export function exitCodeOfAll(runs: readonly { readonly outcome: Outcome | null }[]): number {
  if (runs.some(({ outcome }) => outcome === 'changed')) return 0
  return exitCodeOf(runs.find(({ outcome }) => outcome !== null)?.outcome ?? 'failed')
}
