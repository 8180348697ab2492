/** Agents name a tool of a server by both names in one word: `files_read`, `files__read`, `mcp__files__read`. */
import { type Json, textAt } from './json.ts'

/** `server/tool` of such a name. The names of the servers say where it parts: both may have the mark in them. */
export function parted(name: string, mark: string, servers: readonly string[]): string | undefined {
  const fitting = servers.filter((server) => name.startsWith(`${server}${mark}`))
  // What `files_old_read` is called belongs to `files_old`, also where there is a server `files`.
  const [server] = fitting.toSorted((a, b) => b.length - a.length)
  return server === undefined ? undefined : `${server}/${name.slice(server.length + mark.length)}`
}

/** `mcp__server__tool`. A server that nobody gave it is the project's own, and its name ends where the mark is first. */
export function prefixedName(name: string | undefined, servers: readonly string[]): string | undefined {
  if (!name?.startsWith('mcp__')) return undefined
  const rest = name.slice('mcp__'.length)
  const [, server, tool] = /^(.+?)__(.+)$/s.exec(rest) ?? []
  return parted(rest, '__', servers) ?? (server === undefined ? undefined : `${server}/${tool}`)
}

/**
 * The title of a call that has no better place for its name. SECURITY: the title of a command is the command, and must not pass for a tool by beginning like
 * one. Of the kinds that no rule speaks of `search` is looked at too, since OpenCode calls tools of some servers so.
 */
export function joinedName(mark: string): (call: Json, servers: readonly string[]) => string | undefined {
  return (call, servers) => {
    const isOne = ['other', 'search'].includes(textAt(call, 'kind') ?? '')
    const [name = ''] = isOne ? (textAt(call, 'title') ?? '').split(/[:\s]/, 1) : []
    return parted(name, mark, servers)
  }
}
