/** Checks whether an agent supports the permissions and MCP servers of a run. */
import { invalid } from '../../core/error.ts'
import type { PermissionRules } from '../../core/permission.ts'
import type { Agent } from '../agent.ts'
import type { McpServer } from '../assignment.ts'

interface Use {
  readonly permissions: PermissionRules
  readonly mcpServers: readonly Pick<McpServer, 'name'>[]
}

/** `invalid_argument` if it does not. */
export function checkUse(agent: Agent, use: Use): void {
  const { bash, write, mcp } = use.permissions
  const isStrict = [...bash, ...write, ...mcp].some(({ decision }) => decision !== 'allow')
  if (isStrict && !agent.canAsk)
    throw invalid(
      'run.permissions',
      `${agent.title} cannot be made to ask before it acts`,
      'allow bash, write and mcp, since the sandbox is the boundary; or choose another agent',
    )
  if (use.mcpServers.length > 0 && !agent.takesMcp)
    throw invalid(
      'run.mcp',
      `${agent.title} does not support MCP servers`,
      'leave them out, or choose another agent',
    )
  checkServers(agent, use)
}

/** SECURITY: a rule for the tools of one server can be enforced only if a call names the server. */
function checkServers(agent: Agent, { permissions, mcpServers }: Use): void {
  const narrow = permissions.mcp.find(({ pattern, decision }) => decision !== 'allow' && pattern !== '*')
  if (!narrow) return
  if (agent.namesServers === false)
    throw invalid(
      'run.permissions',
      `${agent.title} does not say which server a tool belongs to, so the rule mcp:${narrow.pattern} cannot be enforced`,
      'use one rule for all servers: --permission mcp=ask',
    )
  const names = mcpServers.map(({ name }) => name)
  // Agents join both names with a separator that may occur in either.
  for (const one of names) {
    const other = names.find((name) => name.startsWith(`${one}_`) || name.startsWith(`${one}-`))
    if (other === undefined) continue
    throw invalid(
      'run.mcp',
      `tools of the servers ${one} and ${other} cannot be told apart, so the rule mcp:${narrow.pattern} cannot be enforced`,
      'rename one of them',
    )
  }
}
