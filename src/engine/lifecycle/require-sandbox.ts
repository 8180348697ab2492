import { AgentPodError } from '../../core/error.ts'
import type { SandboxId } from '../../core/id.ts'
import type { Sandbox } from '../../core/sandbox.ts'
import type { Context } from '../context.ts'

/** The record of a sandbox that has not ended. Call it under the lock of the sandbox. */
export function requireSandbox(ctx: Context, id: SandboxId): Sandbox {
  const sandbox = ctx.registry.get(id)
  if (sandbox && sandbox.endedAt === undefined) return sandbox
  throw unusableSandbox(id, sandbox)
}

/** The error for an operation that needs the sandbox in another state, or finds no sandbox. */
export function unusableSandbox(ref: string, sandbox: Sandbox | undefined): AgentPodError {
  if (!sandbox) {
    return new AgentPodError({
      code: 'not_found',
      reason: 'sandbox.unknown',
      message: `there is no sandbox ${ref}`,
      hint: '`agentpod ls` lists sandboxes',
    })
  }
  if (sandbox.state === 'running') {
    return new AgentPodError({
      code: 'unavailable',
      reason: 'provider.silent',
      message: `the provider ${sandbox.provider} did not answer for sandbox ${ref}`,
      hint: `try again in a moment; \`agentpod provider check ${sandbox.provider}\` shows what is wrong`,
    })
  }
  const why = sandbox.ending ? `: ${sandbox.ending.message}` : ''
  const isEnded = sandbox.endedAt !== undefined
  return new AgentPodError({
    code: isEnded ? 'not_found' : 'conflict',
    reason: isEnded ? 'sandbox.ended' : 'sandbox.state',
    message: `sandbox ${ref} is ${sandbox.state}${why}`,
    details: { state: sandbox.state },
    hint: isEnded ? '`agentpod create` creates a new one' : HINTS[sandbox.state],
  })
}

const HINTS: Partial<Record<Sandbox['state'], string>> = {
  paused: '`agentpod resume` resumes it',
  stopped: '`agentpod start` starts it again',
}
