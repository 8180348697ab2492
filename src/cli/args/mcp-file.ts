/**
 * Files that name MCP servers, in the form that other tools have: `{"mcpServers": {"name": {"command":
 * "..."}}}`.
 */
import { closeSync, openSync, readSync } from 'node:fs'
import * as z from 'zod'
import type { McpServer } from '../../agents/assignment.ts'
import { invalid } from '../../core/error.ts'
import { fileError } from '../output/file-error.ts'

const LARGEST_BYTES = 1024 * 1024

/** Other tools write more keys into such files; unknown keys are ignored. */
const schema = z.object({
  mcpServers: z.record(
    z.string().regex(/^[A-Za-z0-9_-]{1,64}$/, 'is not a name of letters, digits, _ and -'),
    z.object({
      command: z.string().min(1).optional(),
      args: z.array(z.string()).default([]),
      env: z.record(z.string(), z.string()).default({}),
      disabled: z.boolean().optional(),
    }),
  ),
})

/** If two files name the same server, the later file wins. */
export function readMcpServers(files: readonly string[]): McpServer[] {
  const servers = new Map<string, McpServer>()
  for (const file of files)
    for (const [name, { command, args, env, disabled }] of Object.entries(parse(file))) {
      if (disabled) continue
      if (command === undefined)
        throw invalid(
          'mcp.command',
          `the server ${name} of ${file} has no command: only servers that are started inside are known`,
          'give it a command, or take it out',
        )
      servers.set(name, { name, command, args, env })
    }
  return [...servers.values()]
}

function parse(file: string): z.infer<typeof schema>['mcpServers'] {
  let content: unknown
  try {
    content = JSON.parse(readSmall(file))
  } catch (error) {
    throw fileError(error, { reason: 'option.mcp', what: 'cannot read', path: file })
  }
  const parsed = schema.safeParse(content)
  if (parsed.success) return parsed.data.mcpServers
  const issue = parsed.error.issues[0]
  throw invalid(
    'option.mcp',
    `${file} does not say which MCP servers there are: ${issue?.path.join('.')}: ${issue?.message}`,
    'it is JSON like {"mcpServers": {"name": {"command": "...", "args": ["..."]}}}',
  )
}

function readSmall(file: string): string {
  const descriptor = openSync(file, 'r')
  try {
    const buffer = Buffer.alloc(LARGEST_BYTES + 1)
    let length = 0
    for (let read = -1; read !== 0 && length < buffer.length; length += read)
      read = readSync(descriptor, buffer, length, buffer.length - length, null)
    if (length > LARGEST_BYTES) throw new Error('it is larger than 1 MiB')
    return buffer.toString('utf8', 0, length)
  } finally {
    closeSync(descriptor)
  }
}
