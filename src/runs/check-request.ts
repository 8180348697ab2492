/** Whether a run that is asked for can be what it is asked to be. */
import type { Agent } from '../agents/agent.ts'
import { checkUse } from '../agents/check-use.ts'
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
  checkUse(agent, request)
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
