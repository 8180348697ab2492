/**
 * Permission requests of the Agent Client Protocol: what they are about, in terms of our rules, and how to
 * answer.
 */

import type { PermissionAbout } from '../../../core/run.ts'
import { listAt, stringAt } from '../../../util/untrusted-json.ts'
import { clip, LONGEST_TITLE } from '../output/clip.ts'
import type { ToolState } from './tool-call.ts'

/** Ids of the options that allow and deny once. */
export interface PermissionOptions {
  readonly allow: string | undefined
  readonly deny: string | undefined
}

/** Never the options with `always`: our rules decide each time. */
export function permissionOptions(params: unknown): PermissionOptions {
  const options = listAt(params, 'options').slice(0, 32)
  const named = (kind: string): string | undefined => {
    const id = stringAt(
      options.find((one) => stringAt(one, 'kind') === kind),
      'optionId',
    )
    return id === undefined || id.length > 1024 ? undefined : id
  }
  return { allow: named('allow_once'), deny: named('reject_once') ?? named('reject_always') }
}

/**
 * Undefined for actions that no rule covers: reading, searching, thinking. SECURITY: a command counts as a
 * command whatever kind the agent gives it, because agents call `cat` reading.
 */
export function permissionAbout(tool: ToolState): PermissionAbout | undefined {
  const title = clip(tool.title, LONGEST_TITLE)
  if (tool.mcp !== undefined) return { kind: 'mcp', subject: tool.mcp, title }
  if (tool.command !== undefined || tool.kind === 'execute')
    return { kind: 'bash', subject: tool.command ?? tool.title, title }
  if (tool.url !== undefined || tool.kind === 'fetch')
    return { kind: 'network', subject: placeOf(tool.url) ?? 'web-search', title }
  if (tool.kind === 'edit' || tool.kind === 'delete' || tool.kind === 'move' || tool.edits.length > 0)
    return { kind: 'write', subject: tool.paths.join('\n') || tool.title, title }
  if (tool.kind === 'other') return { kind: 'mcp', subject: `agent/${title}`, title }
  return undefined
}

function placeOf(url: string | undefined): string | undefined {
  if (url === undefined) return undefined
  try {
    const { hostname, port, protocol } = new URL(url)
    return hostname === '' ? undefined : `${hostname}:${port || (protocol === 'http:' ? '80' : '443')}`
  } catch {
    return undefined
  }
}
