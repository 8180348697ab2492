/** Permissions of agents in configuration files: reading, comparing and narrowing them. */
import {
  ALLOW_ALL,
  DECISIONS,
  PERMISSION_KINDS,
  type PermissionDecision,
  type PermissionKind,
  type PermissionRule,
  type PermissionRules,
} from '../../core/permission.ts'

/** The permissions that a file sets; all are optional. */
export type PermissionsWish = Readonly<Partial<Record<PermissionKind, readonly PermissionRule[]>>>

type Said = PermissionDecision | Readonly<Record<string, PermissionDecision>>

/** A single decision applies to everything of its kind. */
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

/** The user's permissions on top of the defaults. */
export function withDefaultPermissions(wish: PermissionsWish): PermissionRules {
  return perKind((kind) => {
    const own = wish[kind] ?? []
    return [...ALLOW_ALL[kind].filter(({ pattern }) => !own.some((one) => one.pattern === pattern)), ...own]
  })
}

/** Kinds for which everything is allowed without asking. */
export function allowedWithoutAsking(rules: PermissionRules): PermissionKind[] {
  return PERMISSION_KINDS.filter((kind) => rules[kind].every(({ decision }) => decision === 'allow'))
}

/** Kinds for which a wish allows something: the user must grant them. */
export function allowedKinds(wish: PermissionsWish): PermissionKind[] {
  return PERMISSION_KINDS.filter((kind) => wish[kind]?.some(({ decision }) => decision === 'allow'))
}

/** SECURITY: CF-02. The wish without the parts that need a grant and have none. */
export function withoutUngranted(wish: PermissionsWish, granted: readonly PermissionKind[]): PermissionsWish {
  const kept = PERMISSION_KINDS.flatMap((kind) => {
    const rules = wish[kind]?.filter(({ decision }) => decision !== 'allow' || granted.includes(kind)) ?? []
    return rules.length === 0 ? [] : [[kind, rules] as const]
  })
  return Object.fromEntries(kept)
}

/**
 * SECURITY: CF-02. Makes rules stricter by a wish. A wish never loosens a `deny`, and turns `ask` into
 * `allow` only if that was granted.
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
  const limit = (decision: PermissionDecision): PermissionDecision =>
    isGranted && decision === 'ask' ? 'allow' : decision
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
    // The longer pattern decides, so it must not loosen a shorter one that covers a part of it.
    .filter((rule) => !rules.some((other) => isLoosenedBy(other, rule, limit)))
  return [...own, ...more]
}

function isLoosenedBy(
  shorter: PermissionRule,
  longer: PermissionRule,
  limit: (decision: PermissionDecision) => PermissionDecision,
): boolean {
  return (
    shorter.pattern.length <= longer.pattern.length &&
    strictness(limit(shorter.decision)) < strictness(longer.decision) &&
    !covers(shorter.pattern, longer.pattern) &&
    mayMeet(shorter.pattern, longer.pattern)
  )
}

/** The first rule of a wish that is wider than the rules; undefined if all are as strict or stricter. */
export function widerThan(
  rules: readonly PermissionRule[],
  wish: readonly PermissionRule[],
): { readonly rule: PermissionRule; readonly than: PermissionDecision } | undefined {
  for (const rule of wish) {
    const than = aboutAll(rules, rule.pattern) ?? 'allow'
    if (strictness(than) < strictness(rule.decision)) return { rule, than }
    const part = rules.find((other) => isLoosenedBy(other, rule, (decision) => decision))
    if (part) return { rule, than: part.decision }
  }
  return undefined
}

/** The decision for everything that a pattern matches: that of the longest covering pattern. */
function aboutAll(rules: readonly PermissionRule[], pattern: string): PermissionDecision | undefined {
  const covering = rules.filter((rule) => covers(rule.pattern, pattern))
  const longest = Math.max(...covering.map((rule) => rule.pattern.length))
  return covering
    .filter((rule) => rule.pattern.length === longest)
    .map(({ decision }) => decision)
    .reduce<PermissionDecision | undefined>(
      (before, decision) => (before ? stricter(before, decision) : decision),
      undefined,
    )
}

/**
 * Whether the first pattern matches everything that the second matches. A `*` of the first also matches a `*`
 * of the second.
 */
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

/** False if their ends show that no text matches both. */
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

function strictness(decision: PermissionDecision): number {
  return DECISIONS.indexOf(decision)
}

function stricter(a: PermissionDecision, b: PermissionDecision): PermissionDecision {
  return strictness(a) <= strictness(b) ? a : b
}

function perKind(of: (kind: PermissionKind) => readonly PermissionRule[]): PermissionRules {
  return { bash: of('bash'), write: of('write'), mcp: of('mcp'), network: of('network') }
}
