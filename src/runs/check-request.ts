/** Whether a run that is asked for can be what it is asked to be. */
import type { Agent } from '../agents/agent.ts'
import { invalid } from '../core/error.ts'
import type { RunPlan } from './plan.ts'

/** What a front door asks for. */
export type NewRun = Omit<RunPlan, 'asker'>

export function checkRequest(agent: Agent, request: NewRun): void {
  if (request.prompt.trim() === '')
    throw invalid('run.prompt', 'there is nothing to do: the prompt is empty', 'say what the agent shall do')
  if (agent.install.kind === 'none' && request.command.length === 0)
    throw invalid(
      'run.command',
      `${agent.title} needs a command, and there is none`,
      'say which: --agent-command "my-agent --acp"',
    )
  const { bash, write, mcp } = request.permissions
  const isStrict = [...bash, ...write, ...mcp].some(({ decision }) => decision !== 'allow')
  if (isStrict && !agent.canAsk)
    throw invalid(
      'run.permissions',
      `${agent.title} cannot be made to ask before it acts`,
      'allow bash, write and mcp: the sandbox is the boundary; or choose another agent',
    )
  if (request.mcpServers.length > 0 && !agent.takesMcp)
    throw invalid('run.mcp', `${agent.title} takes no MCP servers`, 'leave them out, or choose another agent')
  checkServers(agent, request)
  if (
    agent.credentials.length > 0 &&
    !agent.credentials.some(({ variable }) => variable === request.credential)
  )
    throw invalid(
      'run.credential',
      `${agent.title} needs one of ${agent.credentials.map(({ variable }) => variable).join(', ')}`,
      'set it in your environment, or keep it with `agentpod secret set`',
    )
}

/** SECURITY: a rule about the tools of one server holds only where a call says whose tool it is. */
function checkServers(agent: Agent, { permissions, mcpServers }: NewRun): void {
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
