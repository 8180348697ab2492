/** What files say agents may do: read, held against each other, and narrowed. */
import {
  ALLOW_ALL,
  DECISIONS,
  type Decision,
  PERMISSION_KINDS,
  type PermissionKind,
  type PermissionRule,
  type PermissionRules,
} from '../core/permission.ts'

/** What a file says; it need not say anything. */
export type PermissionsWish = Readonly<Partial<Record<PermissionKind, readonly PermissionRule[]>>>

type Said = Decision | Readonly<Record<string, Decision>>

/** A decision alone is about everything of its kind. */
export function permissionsWish(
  table: Readonly<Partial<Record<PermissionKind, Said | undefined>>>,
): PermissionsWish {
  return Object.fromEntries(
    Object.entries(table).flatMap(([kind, said]) =>
      said === undefined
        ? []
        : [
            [
              kind,
              typeof said === 'string'
                ? [{ pattern: '*', decision: said }]
                : Object.entries(said).map(([pattern, decision]) => ({ pattern, decision })),
            ],
          ],
    ),
  )
}

/** What the user's own file says, on what holds where nobody says anything. */
export function onDefaults(wish: PermissionsWish): PermissionRules {
  return perKind((kind) => {
    const own = wish[kind] ?? []
    return [...ALLOW_ALL[kind].filter(({ pattern }) => !own.some((one) => one.pattern === pattern)), ...own]
  })
}

/** Kinds that nobody is asked about and nothing is denied of. */
export function unasked(rules: PermissionRules): PermissionKind[] {
  return PERMISSION_KINDS.filter((kind) => rules[kind].every(({ decision }) => decision === 'allow'))
}

/** Kinds of which a wish wants something allowed: to be granted, where the user has not done so. */
export function allowedKinds(wish: PermissionsWish): PermissionKind[] {
  return PERMISSION_KINDS.filter((kind) => wish[kind]?.some(({ decision }) => decision === 'allow'))
}

/** SECURITY: CF-02. A wish with nothing left that would have to be granted and was not. */
export function withoutUngranted(wish: PermissionsWish, granted: readonly PermissionKind[]): PermissionsWish {
  const kept = PERMISSION_KINDS.flatMap((kind) => {
    const rules = wish[kind]?.filter(({ decision }) => decision !== 'allow' || granted.includes(kind)) ?? []
    return rules.length === 0 ? [] : [[kind, rules] as const]
  })
  return Object.fromEntries(kept)
}

/**
 * SECURITY: CF-02. What the rules say, only stricter: a wish turns no `deny` into anything else, and an `ask` into `allow` where that was granted
 * and nowhere else.
 */
export function narrowPermissions(
  rules: PermissionRules,
  wish: PermissionsWish,
  granted: readonly PermissionKind[] = [],
): PermissionRules {
  return perKind((kind) => narrowed(rules[kind], wish[kind] ?? [], granted.includes(kind)))
}

function narrowed(
  rules: readonly PermissionRule[],
  wish: readonly PermissionRule[],
  isGranted: boolean,
): PermissionRule[] {
  const limit = (decision: Decision): Decision => (isGranted && decision === 'ask' ? 'allow' : decision)
  const own = rules.map((rule) => {
    const same = wish.find(({ pattern }) => pattern === rule.pattern)
    if (same) return { ...rule, decision: stricter(limit(rule.decision), same.decision) }
    return { ...rule, decision: stricter(rule.decision, aboutAll(wish, rule.pattern) ?? 'allow') }
  })
  const more = wish
    .filter(({ pattern }) => !rules.some((rule) => rule.pattern === pattern))
    .map(({ pattern, decision }) => ({
      pattern,
      decision: stricter(decision, limit(aboutAll(rules, pattern) ?? 'allow')),
    }))
    // The longer pattern decides, so it must not loosen what a shorter one says about a part of it.
    .filter((rule) => !rules.some((other) => isLoosenedBy(other, rule, limit)))
  return [...own, ...more]
}

function isLoosenedBy(
  shorter: PermissionRule,
  longer: PermissionRule,
  limit: (decision: Decision) => Decision,
): boolean {
  return (
    shorter.pattern.length <= longer.pattern.length &&
    strictness(limit(shorter.decision)) < strictness(longer.decision) &&
    !covers(shorter.pattern, longer.pattern) &&
    mayMeet(shorter.pattern, longer.pattern)
  )
}

/** The first of a wish's rules that is wider than what the rules say; undefined where all of it is as strict or stricter. */
export function widerThan(
  rules: readonly PermissionRule[],
  wish: readonly PermissionRule[],
): { readonly rule: PermissionRule; readonly than: Decision } | undefined {
  for (const rule of wish) {
    const than = aboutAll(rules, rule.pattern) ?? 'allow'
    if (strictness(than) < strictness(rule.decision)) return { rule, than }
    const part = rules.find((other) => isLoosenedBy(other, rule, (decision) => decision))
    if (part) return { rule, than: part.decision }
  }
  return undefined
}

/** What is decided about everything that a pattern fits: by the longest that covers it. */
function aboutAll(rules: readonly PermissionRule[], pattern: string): Decision | undefined {
  const covering = rules.filter((rule) => covers(rule.pattern, pattern))
  const longest = Math.max(...covering.map((rule) => rule.pattern.length))
  return covering
    .filter((rule) => rule.pattern.length === longest)
    .map(({ decision }) => decision)
    .reduce<Decision | undefined>(
      (before, decision) => (before ? stricter(before, decision) : decision),
      undefined,
    )
}

/** Whether everything that the second fits is fitted by the first: its `*` take whatever stands there, a `*` too. */
function covers(first: string, second: string): boolean {
  const [head = '', ...parts] = first.split('*')
  const tail = parts.pop()
  if (tail === undefined) return first === second
  if (!second.startsWith(head)) return false
  let from = head.length
  for (const part of parts) {
    const found = second.indexOf(part, from)
    if (found < 0) return false
    from = found + part.length
  }
  return second.length - tail.length >= from && second.endsWith(tail)
}

/** False where both ends show that nothing is fitted by both. */
function mayMeet(first: string, second: string): boolean {
  const ends = (pattern: string): readonly [string, string] => {
    const parts = pattern.split('*')
    return [parts[0] ?? '', parts.at(-1) ?? '']
  }
  const [[headA, tailA], [headB, tailB]] = [ends(first), ends(second)]
  const meets = (a: string, b: string, has: (text: string, end: string) => boolean): boolean =>
    has(a, b) || has(b, a)
  return (
    meets(headA, headB, (text, end) => text.startsWith(end)) &&
    meets(tailA, tailB, (text, end) => text.endsWith(end))
  )
}

function strictness(decision: Decision): number {
  return DECISIONS.indexOf(decision)
}

function stricter(a: Decision, b: Decision): Decision {
  return strictness(a) <= strictness(b) ? a : b
}

function perKind(of: (kind: PermissionKind) => readonly PermissionRule[]): PermissionRules {
  return { bash: of('bash'), write: of('write'), mcp: of('mcp'), network: of('network') }
}
