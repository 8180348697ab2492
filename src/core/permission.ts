/** What an agent may do inside its sandbox: always, after asking, or never. */

export const PERMISSION_KINDS = ['bash', 'write', 'mcp', 'network'] as const
export type PermissionKind = (typeof PERMISSION_KINDS)[number]

/** Strictest first. */
export const DECISIONS = ['deny', 'ask', 'allow'] as const
export type PermissionDecision = (typeof DECISIONS)[number]

/**
 * `*` in a pattern is any text. The longest matching pattern decides; among equal ones the strictest. Without
 * a match the decision is `allow`.
 */
export interface PermissionRule {
  readonly pattern: string
  readonly decision: PermissionDecision
}

export type PermissionRules = Readonly<Record<PermissionKind, readonly PermissionRule[]>>

export const ALLOW_ALL: PermissionRules = {
  bash: [],
  write: [],
  mcp: [],
  network: [{ pattern: '*', decision: 'ask' }],
}
