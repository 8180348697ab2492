import { AgentPodError } from '../core/error.ts'
import type { SandboxId } from '../core/id.ts'
import type { Sandbox } from '../core/sandbox.ts'
import type { Context } from './context.ts'

/** The record of a sandbox that has not ended; to be read under its lock. */
export function needSandbox(ctx: Context, id: SandboxId): Sandbox {
  const sandbox = ctx.ledger.get(id)
  if (sandbox && sandbox.endedAt === undefined) return sandbox
  throw notRunning(id, sandbox)
}

/** The error for a verb that needs a sandbox in another state. */
export function notRunning(ref: string, sandbox: Sandbox | undefined): AgentPodError {
  if (!sandbox) {
    return new AgentPodError({
      code: 'not_found',
      reason: 'sandbox.unknown',
      message: `there is no sandbox ${ref}`,
      hint: '`agentpod ls` shows the living ones',
    })
  }
  if (sandbox.state === 'running') {
    return new AgentPodError({
      code: 'unavailable',
      reason: 'provider.silent',
      message: `${sandbox.provider} did not answer when it was asked for sandbox ${ref}`,
      hint: `try again in a moment; \`agentpod provider check ${sandbox.provider}\` tells more`,
    })
  }
  const why = sandbox.ending ? `: ${sandbox.ending.message}` : ''
  const isEnded = sandbox.endedAt !== undefined
  return new AgentPodError({
    code: isEnded ? 'not_found' : 'conflict',
    reason: isEnded ? 'sandbox.ended' : 'sandbox.state',
    message: `sandbox ${ref} is ${sandbox.state}${why}`,
    details: { state: sandbox.state },
    hint: isEnded ? '`agentpod create` makes a new one' : HINTS[sandbox.state],
  })
}

const HINTS: Partial<Record<Sandbox['state'], string>> = {
  paused: '`agentpod resume` lets it run on',
  stopped: '`agentpod start` runs it again',
}
