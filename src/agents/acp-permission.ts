/** Questions of the Agent Client Protocol: what one is about, in words that rules are written in, and how it is answered. */
import type { PermissionAbout } from '../core/run.ts'
import type { ToolState } from './acp-tool.ts'
import { clip, LONGEST_TITLE } from './clip.ts'
import { listAt, textAt } from './json.ts'

/** Ids of the options that say yes and no for this one time. */
export interface Options {
  readonly allow: string | undefined
  readonly deny: string | undefined
}

/** Never `always`: our rules decide each time. */
export function optionsIn(params: unknown): Options {
  const options = listAt(params, 'options').slice(0, 32)
  const named = (kind: string): string | undefined => {
    const id = textAt(
      options.find((one) => textAt(one, 'kind') === kind),
      'optionId',
    )
    return id === undefined || id.length > 1024 ? undefined : id
  }
  return { allow: named('allow_once'), deny: named('reject_once') ?? named('reject_always') }
}

/**
 * Undefined where no rule speaks of such a thing: reading, searching, thinking. SECURITY: a command is a command whatever its kind is called,
 * since agents call `cat` reading.
 */
export function aboutTool(tool: ToolState): PermissionAbout | undefined {
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
