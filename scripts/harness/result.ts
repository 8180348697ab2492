// The result of one phase of a test run. A check without test cases, such as the type check, is one case.

export type Case = {
  readonly name: string
  readonly outcome: 'passed' | 'failed' | 'skipped'
  readonly durationMs: number
  /** Why it failed, ready to print, or why it was skipped. */
  readonly detail: string
}

export type Counts = { readonly passed: number; readonly failed: number; readonly skipped: number }

export function passed(name: string, durationMs = 0): Case {
  return { name, outcome: 'passed', durationMs, detail: '' }
}

export function failed(name: string, detail: string, durationMs = 0): Case {
  return { name, outcome: 'failed', durationMs, detail }
}

export function skipped(name: string, reason: string): Case {
  return { name, outcome: 'skipped', durationMs: 0, detail: reason }
}

export function count(cases: readonly Case[]): Counts {
  const of = (outcome: Case['outcome']): number => cases.filter((one) => one.outcome === outcome).length
  return { passed: of('passed'), failed: of('failed'), skipped: of('skipped') }
}

export function slowest(cases: readonly Case[], limit: number, thresholdMs: number): Case[] {
  return cases
    .filter((one) => one.durationMs >= thresholdMs)
    .sort((a, b) => b.durationMs - a.durationMs)
    .slice(0, limit)
}

/** How long the tests of each file took together, the slowest first. Hooks are not counted. */
export function slowestFiles(cases: readonly Case[], limit: number): [file: string, durationMs: number][] {
  const files = new Map<string, number>()
  for (const { name, durationMs } of cases) {
    const [file] = name.split(': ', 1)
    if (file?.endsWith('.test.ts')) files.set(file, (files.get(file) ?? 0) + durationMs)
  }
  return [...files].sort((a, b) => b[1] - a[1]).slice(0, limit)
}

/** How many were skipped for each reason, the commonest first. */
export function skipsByReason(cases: readonly Case[]): [reason: string, count: number][] {
  const reasons = new Map<string, number>()
  for (const { outcome, detail } of cases)
    if (outcome === 'skipped') reasons.set(detail, (reasons.get(detail) ?? 0) + 1)
  return [...reasons].sort((a, b) => b[1] - a[1])
}
