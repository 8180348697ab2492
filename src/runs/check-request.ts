/** Checks whether the agent can do what the request asks for. */
import type { Agent } from '../agents/agent.ts'
import { checkUse } from '../agents/permissions/check-use.ts'
import { invalid } from '../core/error.ts'
import type { RunPlan } from './plan.ts'

/** A request of the API for a run. */
export type NewRun = Omit<RunPlan, 'asker'>

export function checkRequest(agent: Agent, request: NewRun): void {
  if (request.prompt.trim() === '')
    throw invalid('run.prompt', 'the prompt is empty', 'describe the task for the agent')
  if (agent.install.kind === 'none' && request.command.length === 0)
    throw invalid(
      'run.command',
      `${agent.title} needs a command`,
      'for example: --agent-command "my-agent --acp"',
    )
  checkUse(agent, request)
  if (
    agent.credentials.length > 0 &&
    !agent.credentials.some(({ variable }) => variable === request.credential)
  )
    throw invalid(
      'run.credential',
      `${agent.title} needs one of ${agent.credentials.map(({ variable }) => variable).join(', ')}`,
      'set it in your environment, or store it with `agentpod secret set`',
    )
}
