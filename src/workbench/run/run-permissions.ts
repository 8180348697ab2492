/** What an agent may do in a run: the rules in the files, and on top of them those of the request. */
import { type NamedRule, withPermissions } from '../../agents/permissions/permissions.ts'
import {
  ALLOW_ALL,
  PERMISSION_KINDS,
  type PermissionRule,
  type PermissionRules,
} from '../../core/permission.ts'
import type { AgentRequest } from './agent-request.ts'
import type { AgentSettings } from './agent-settings.ts'

/** The rules as the API takes them. */
export interface RunPermissions extends Record<keyof PermissionRules, PermissionRule[]> {}

export function permissionsOf(
  request: Pick<AgentRequest, 'isAsking' | 'permissions'>,
  settings?: Pick<AgentSettings, 'permissions'>,
): RunPermissions {
  const files = settings?.permissions() ?? ALLOW_ALL
  const asked = request.isAsking ? askAll(files) : files
  const rules = onTop(asked, request.permissions ?? [])
  return {
    bash: [...rules.bash],
    write: [...rules.write],
    mcp: [...rules.mcp],
    network: [...rules.network],
  }
}

/** Turns `allow` into `ask`; `deny` stays. */
function askAll(rules: PermissionRules): PermissionRules {
  const strict = PERMISSION_KINDS.map((kind) => {
    const own = rules[kind].map((rule) =>
      rule.decision === 'allow' ? { ...rule, decision: 'ask' as const } : rule,
    )
    const isWhole = own.some(({ pattern }) => pattern === '*')
    return [kind, isWhole ? own : [...own, { pattern: '*', decision: 'ask' }]]
  })
  return Object.fromEntries(strict) as unknown as PermissionRules
}

/** A rule for `*` replaces every rule of its kind in the files; rules for patterns are added after it. */
function onTop(rules: PermissionRules, words: readonly NamedRule[]): PermissionRules {
  const whole = words.filter(({ pattern }) => pattern === '*')
  const cleared = Object.fromEntries(
    PERMISSION_KINDS.map((kind) => [kind, whole.some((word) => word.kind === kind) ? [] : rules[kind]]),
  ) as unknown as PermissionRules
  return withPermissions([...whole, ...words.filter((word) => !whole.includes(word))], cleared)
}
