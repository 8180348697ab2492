/**
 * Errors of the connection to the daemon. `unavailable` means that it cannot be reached, not that a sandbox
 * is gone.
 */
import type { CallOptions } from '../../../core/call.ts'
import { AgentPodError } from '../../../core/error.ts'
import type { Endpoint } from './endpoint.ts'

/** The error if the caller gave up or the call timed out; undefined otherwise. */
export function abortedError(error: unknown, o: CallOptions, signal: AbortSignal): AgentPodError | undefined {
  if (o.signal?.aborted)
    return new AgentPodError({
      code: 'canceled',
      reason: 'canceled',
      message: 'the call was canceled',
      cause: error,
    })
  if (!signal.aborted) return undefined
  return new AgentPodError({
    code: 'unavailable',
    reason: 'docker.timeout',
    message: 'the Docker daemon did not answer in time',
    hint: '`agentpod provider check docker` checks whether it answers',
    cause: error,
  })
}

const PROBLEMS: Readonly<Record<string, { reason: string; problem: string; hint: string }>> = {
  ENOENT: {
    reason: 'docker.absent',
    problem: 'no Docker daemon is listening',
    hint: 'start Docker (`sudo systemctl start docker`), or set DOCKER_HOST to its address',
  },
  ECONNREFUSED: {
    reason: 'docker.absent',
    problem: 'no Docker daemon is listening',
    hint: 'start Docker (`sudo systemctl start docker`), or set DOCKER_HOST to its address',
  },
  EACCES: {
    reason: 'docker.permission',
    problem: 'you have no permission to use the Docker daemon',
    hint: 'join the group docker (`sudo usermod -aG docker $USER`, then log in again), or use rootless Docker',
  },
  EPERM: {
    reason: 'docker.permission',
    problem: 'you have no permission to use the Docker daemon',
    hint: 'join the group docker (`sudo usermod -aG docker $USER`, then log in again), or use rootless Docker',
  },
  ENOTFOUND: {
    reason: 'docker.absent',
    problem: 'the host of the Docker daemon was not found',
    hint: 'check DOCKER_HOST, or the current context in `docker context ls`',
  },
}

export function unreachable(error: unknown, endpoint: Endpoint): AgentPodError {
  const code = String((error as { code?: unknown } | undefined)?.code)
  const known = PROBLEMS[code] ?? {
    reason: 'docker.lost',
    problem: 'the connection to the Docker daemon was lost',
    hint: '`agentpod provider check docker` finds the cause',
  }
  return new AgentPodError({
    code: 'unavailable',
    reason: known.reason,
    message: `${known.problem} (${describeEndpoint(endpoint)}, from ${endpoint.from})`,
    hint: known.hint,
    cause: error,
  })
}

export function describeEndpoint(endpoint: Endpoint): string {
  switch (endpoint.kind) {
    case 'unix':
      return `unix://${endpoint.path}`
    case 'tcp':
      return `tcp://${endpoint.host}:${endpoint.port}${endpoint.tls ? ' with TLS' : ''}`
    case 'ssh':
      return `ssh://${endpoint.target}${endpoint.port === undefined ? '' : `:${endpoint.port}`}`
  }
}
