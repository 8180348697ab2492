/** Whether an agent can be held to what is asked of it. */
import { invalid } from '../core/error.ts'
import type { PermissionRules } from '../core/permission.ts'
import type { Agent } from './agent.ts'
import type { McpServer } from './assignment.ts'

interface Use {
  readonly permissions: PermissionRules
  readonly mcpServers: readonly Pick<McpServer, 'name'>[]
}

/** `invalid_argument` where it cannot. */
export function checkUse(agent: Agent, use: Use): void {
  const { bash, write, mcp } = use.permissions
  const isStrict = [...bash, ...write, ...mcp].some(({ decision }) => decision !== 'allow')
  if (isStrict && !agent.canAsk)
    throw invalid(
      'run.permissions',
      `${agent.title} cannot be made to ask before it acts`,
      'allow bash, write and mcp: the sandbox is the boundary; or choose another agent',
    )
  if (use.mcpServers.length > 0 && !agent.takesMcp)
    throw invalid('run.mcp', `${agent.title} takes no MCP servers`, 'leave them out, or choose another agent')
  checkServers(agent, use)
}

/** SECURITY: a rule about the tools of one server holds only where a call says whose tool it is. */
function checkServers(agent: Agent, { permissions, mcpServers }: Use): void {
  const narrow = permissions.mcp.find(({ pattern, decision }) => decision !== 'allow' && pattern !== '*')
  if (!narrow) return
  if (agent.namesServers === false)
    throw invalid(
      'run.permissions',
      `${agent.title} does not say whose tool it calls, so the rule mcp:${narrow.pattern} could not be held`,
      'make it a rule for all of them: --permission mcp=ask',
    )
  const names = mcpServers.map(({ name }) => name)
  // Agents write both names into one word, with a mark between them that may be in either.
  for (const one of names) {
    const other = names.find((name) => name.startsWith(`${one}_`) || name.startsWith(`${one}-`))
    if (other === undefined) continue
    throw invalid(
      'run.mcp',
      `tools of the servers ${one} and ${other} cannot be told apart, so the rule mcp:${narrow.pattern} could not be held`,
      'call one of them something else',
    )
  }
}
