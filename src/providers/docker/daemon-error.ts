/** A daemon that gave no answer. `unavailable` means that it could not be asked; nothing is known to be gone then. */
import type { CallOptions } from '../../core/call.ts'
import { AgentPodError } from '../../core/error.ts'
import type { Endpoint } from './endpoint.ts'

/** The caller gave up, or the call's time was over. Undefined where it was neither. */
export function withoutAnswer(
  error: unknown,
  o: CallOptions,
  signal: AbortSignal,
): AgentPodError | undefined {
  if (o.signal?.aborted)
    return new AgentPodError({
      code: 'canceled',
      reason: 'canceled',
      message: 'it was canceled',
      cause: error,
    })
  if (!signal.aborted) return undefined
  return new AgentPodError({
    code: 'unavailable',
    reason: 'docker.timeout',
    message: 'the Docker daemon did not answer in time',
    hint: '`agentpod provider check docker` says whether it answers at all',
    cause: error,
  })
}

const PROBLEMS: Readonly<Record<string, { reason: string; problem: string; hint: string }>> = {
  ENOENT: {
    reason: 'docker.absent',
    problem: 'no Docker daemon listens',
    hint: 'start Docker (`sudo systemctl start docker`), or set DOCKER_HOST to where it listens',
  },
  ECONNREFUSED: {
    reason: 'docker.absent',
    problem: 'no Docker daemon listens',
    hint: 'start Docker (`sudo systemctl start docker`), or set DOCKER_HOST to where it listens',
  },
  EACCES: {
    reason: 'docker.permission',
    problem: 'you may not use the Docker daemon',
    hint: 'join the group docker (`sudo usermod -aG docker $USER`, then log in again), or use rootless Docker',
  },
  EPERM: {
    reason: 'docker.permission',
    problem: 'you may not use the Docker daemon',
    hint: 'join the group docker (`sudo usermod -aG docker $USER`, then log in again), or use rootless Docker',
  },
  ENOTFOUND: {
    reason: 'docker.absent',
    problem: 'there is no such host as the Docker daemon’s',
    hint: 'check DOCKER_HOST, or the context that `docker context ls` shows',
  },
}

export function unreachable(error: unknown, endpoint: Endpoint): AgentPodError {
  const code = String((error as { code?: unknown } | undefined)?.code)
  const known = PROBLEMS[code] ?? {
    reason: 'docker.lost',
    problem: 'the connection to the Docker daemon broke',
    hint: '`agentpod provider check docker` says what is wrong',
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
