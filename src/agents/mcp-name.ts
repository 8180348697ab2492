/** Several agents name a tool of a server by both names in one word: `files_read`, `files__read`. */
import { type Json, textAt } from './json.ts'

export function joinedName(mark: string): (call: Json, servers: readonly string[]) => string | undefined {
  return (call, servers) => {
    const title = textAt(call, 'kind') === 'other' ? (textAt(call, 'title') ?? '') : ''
    const server = servers.find((name) => title.startsWith(`${name}${mark}`))
    if (server === undefined) return undefined
    const [tool = ''] = title.slice(server.length + mark.length).split(/[:\s]/, 1)
    return `${server}/${tool}`
  }
}
