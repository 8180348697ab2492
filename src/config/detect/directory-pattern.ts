/** Patterns by which workspaces name their members: `packages/*`, `apps/**`, `{libs,tools}/*`, and `!` for what is not one. */
import { nameMatches } from './place.ts'

const MOST_ALTERNATIVES = 64
const LONGEST = 500

/** Whether the directory is named by the patterns, the later of which overrule the earlier. */
export function isMember(directory: string, patterns: readonly string[]): boolean {
  let member = false
  for (const pattern of patterns) {
    const isExclusion = pattern.startsWith('!')
    if (isExclusion === member && matchesPattern(directory, isExclusion ? pattern.slice(1) : pattern))
      member = !isExclusion
  }
  return member
}

export function matchesPattern(directory: string, pattern: string): boolean {
  const parts = directory.split('/')
  return alternatives(pattern.slice(0, LONGEST)).some((one) => matchesParts(parts, partsOf(one)))
}

function partsOf(pattern: string): string[] {
  return pattern.split('/').filter((part) => part !== '' && part !== '.')
}

/** SECURITY: the pattern comes from a file, so it is matched in time that is bounded by both lengths and never handed to a regular expression. */
function matchesParts(parts: readonly string[], pattern: readonly string[]): boolean {
  // reachable[at]: the first `at` parts are matched by as much of the pattern as was gone through.
  let reachable = [true, ...parts.map(() => false)]
  for (const step of pattern) {
    const next = reachable.map(() => false)
    for (const [at, is] of reachable.entries()) {
      if (step === '**') next[at] = is || (next[at - 1] ?? false)
      else next[at] = (reachable[at - 1] ?? false) && nameMatches(parts[at - 1] ?? '', step)
    }
    reachable = next
  }
  return reachable.at(-1) ?? false
}

/** `{a,b}/*` as `a/*` and `b/*`. */
function alternatives(pattern: string): readonly string[] {
  let all = [pattern]
  for (let round = 0; round < 5; round++) {
    const next = all.flatMap((one) => {
      const [whole, inner = ''] = /\{([^{}]*)\}/.exec(one) ?? []
      return whole === undefined ? [one] : inner.split(',').map((choice) => one.replace(whole, () => choice))
    })
    if (next.length > MOST_ALTERNATIVES || next.length === all.length) return next.slice(0, MOST_ALTERNATIVES)
    all = next
  }
  return all
}
