import { type JsonObject, stringAt } from '../../../util/untrusted-json.ts'
/** Agents join the names of an MCP server and its tool: `files_read`, `files__read`, `mcp__files__read`. */

/**
 * Splits such a name into `server/tool`. The known server names decide where, because both parts may contain
 * the separator.
 */
export function splitToolName(name: string, mark: string, servers: readonly string[]): string | undefined {
  const fitting = servers.filter((server) => name.startsWith(`${server}${mark}`))
  // `files_old_read` belongs to `files_old`, even if there is a server `files`.
  const [server] = fitting.toSorted((a, b) => b.length - a.length)
  return server === undefined ? undefined : `${server}/${name.slice(server.length + mark.length)}`
}

/** `mcp__server__tool`. An unknown server is the project's own; its name ends at the first separator. */
export function prefixedToolName(name: string | undefined, servers: readonly string[]): string | undefined {
  if (!name?.startsWith('mcp__')) return undefined
  const rest = name.slice('mcp__'.length)
  const [, server, tool] = /^(.+?)__(.+)$/s.exec(rest) ?? []
  return splitToolName(rest, '__', servers) ?? (server === undefined ? undefined : `${server}/${tool}`)
}

/**
 * The name from the title of a call, for agents that put it nowhere else. SECURITY: the title of a command is
 * the command itself, which must not pass for a tool by beginning like one. Besides `other`, the kind
 * `search` counts, because OpenCode uses it for tools of some servers.
 */
export function joinedToolName(
  mark: string,
): (call: JsonObject, servers: readonly string[]) => string | undefined {
  return (call, servers) => {
    const isOne = ['other', 'search'].includes(stringAt(call, 'kind') ?? '')
    const [name = ''] = isOne ? (stringAt(call, 'title') ?? '').split(/[:\s]/, 1) : []
    return splitToolName(name, mark, servers)
  }
}
