/** Translates the daemon's description of a container for the engine. */
import { parseSandboxId, type SandboxId } from '../../../core/id.ts'
import type { Handle, Observed } from '../../../core/provider.ts'
import type { Container } from '../daemon/responses.ts'
import { SANDBOX_LABEL, TOKEN_LABEL, WHEN_OVER_LABEL } from '../names.ts'

/** The exit code of podd when its lease expires. */
export const LEASE_EXPIRED_EXIT = 79
const KILLED = 137

export interface ContainerEnding {
  readonly oomKilled: boolean
  readonly expired: boolean
}

export function endingOf({ State }: Container): ContainerEnding {
  return {
    oomKilled: State.OOMKilled && State.ExitCode === KILLED,
    expired: State.ExitCode === LEASE_EXPIRED_EXIT,
  }
}

export function observedOf(container: Container): Observed {
  const { State, Config } = container
  if (State.Paused) return { state: 'paused' }
  if (State.Running) return { state: 'running' }
  const ending = endingOf(container)
  // A sandbox that should have been paused at its deadline, while no server ran to do it, is stopped: its
  // files are kept.
  const keepsFiles = ending.expired && Config.Labels[WHEN_OVER_LABEL] !== 'destroy'
  if (container.Name.endsWith('-stopped') || keepsFiles) return { state: 'stopped' }
  return { state: 'exited', ...ending }
}

export function handleOf(id: string, labels: Readonly<Record<string, string>>): Handle {
  return { sandboxId: sandboxOf(labels), data: { container: id, token: labels[TOKEN_LABEL] ?? '' } }
}

export function sandboxOf(labels: Readonly<Record<string, string>>): SandboxId {
  return parseSandboxId(labels[SANDBOX_LABEL] ?? '')
}
