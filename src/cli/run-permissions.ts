/** What an agent may do in a run: what the files say, and on top of it the words of the person who starts it. */
import { type NamedRule, parsePermission, withPermissions } from '../agents/permissions.ts'
import { ALLOW_ALL, PERMISSION_KINDS, type PermissionRule, type PermissionRules } from '../core/permission.ts'
import type { AgentSettings } from './agent-settings.ts'
import type { Parsed } from './args/parse.ts'

/** The rules as the API takes them. */
export interface RunPermissions extends Record<keyof PermissionRules, PermissionRule[]> {}

export function permissionsOf(parsed: Parsed, settings?: Pick<AgentSettings, 'permissions'>): RunPermissions {
  const files = settings?.permissions() ?? ALLOW_ALL
  const asked = parsed.has('ask') ? askAll(files) : files
  const rules = onTop(asked, parsed.values('permission').map(parsePermission))
  return {
    bash: [...rules.bash],
    write: [...rules.write],
    mcp: [...rules.mcp],
    network: [...rules.network],
  }
}

/** What is denied stays denied. */
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

/** A word about all of a kind is about all of it, whatever the files say of parts; then come those about parts. */
function onTop(rules: PermissionRules, words: readonly NamedRule[]): PermissionRules {
  const whole = words.filter(({ pattern }) => pattern === '*')
  const cleared = Object.fromEntries(
    PERMISSION_KINDS.map((kind) => [kind, whole.some((word) => word.kind === kind) ? [] : rules[kind]]),
  ) as unknown as PermissionRules
  return withPermissions([...whole, ...words.filter((word) => !whole.includes(word))], cleared)
}
