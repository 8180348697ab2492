/** What an agent may do inside its sandbox: unasked, when somebody says yes, or not at all. */

export const PERMISSION_KINDS = ['bash', 'write', 'mcp', 'network'] as const
export type PermissionKind = (typeof PERMISSION_KINDS)[number]

/** Strictest first. */
export const DECISIONS = ['deny', 'ask', 'allow'] as const
export type Decision = (typeof DECISIONS)[number]

/** `*` in a pattern is any text. The longest pattern that fits decides, of equal ones the strictest; where none fits, `allow`. */
export interface PermissionRule {
  readonly pattern: string
  readonly decision: Decision
}

export type PermissionRules = Readonly<Record<PermissionKind, readonly PermissionRule[]>>

export const ALLOW_ALL: PermissionRules = {
  bash: [],
  write: [],
  mcp: [],
  network: [{ pattern: '*', decision: 'ask' }],
}
