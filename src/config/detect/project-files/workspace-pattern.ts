/** Patterns for the members of a workspace: `packages/*`, `apps/**`, `{libs,tools}/*`, and `!` to exclude. */
import { nameMatches } from './paths.ts'

const MOST_ALTERNATIVES = 64
const LONGEST = 500

/** Whether the patterns include the directory; later patterns overrule earlier ones. */
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

/**
 * SECURITY: the pattern comes from a file, so matching takes bounded time and never uses a regular
 * expression.
 */
function matchesParts(parts: readonly string[], pattern: readonly string[]): boolean {
  // reachable[at]: the pattern so far matches the first `at` parts.
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
