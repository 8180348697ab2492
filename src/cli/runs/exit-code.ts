/** Exit codes of runs: one for each outcome, different from AgentPod's own failures. */
import type { Outcome } from '../../core/run.ts'

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

/** For several runs: 0 if one changed something, else the code of the first that ended. */
export function exitCodeOfAll(runs: readonly { readonly outcome: Outcome | null }[]): number {
  if (runs.some(({ outcome }) => outcome === 'changed')) return 0
  return exitCodeOf(runs.find(({ outcome }) => outcome !== null)?.outcome ?? 'failed')
}
