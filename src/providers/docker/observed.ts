/** What the daemon says of a container, in the engine's words. */
import { parseSandboxId, type SandboxId } from '../../core/id.ts'
import type { Handle, Observed } from '../../core/provider.ts'
import type { Container } from './answers.ts'
import { SANDBOX, TOKEN, WHEN_OVER } from './names.ts'

/** podd ends with it when its lease is over. */
export const EXPIRED = 79
const KILLED = 137

export interface Ending {
  readonly oomKilled: boolean
  readonly expired: boolean
}

export function endingOf({ State }: Container): Ending {
  return { oomKilled: State.OOMKilled && State.ExitCode === KILLED, expired: State.ExitCode === EXPIRED }
}

export function observedOf(container: Container): Observed {
  const { State, Config } = container
  if (State.Paused) return { state: 'paused' }
  if (State.Running) return { state: 'running' }
  const ending = endingOf(container)
  // A sandbox that shall be paused at the end of its time was not, where no server was there to do it: its files are kept.
  const keepsFiles = ending.expired && Config.Labels[WHEN_OVER] !== 'destroy'
  if (container.Name.endsWith('-stopped') || keepsFiles) return { state: 'stopped' }
  return { state: 'exited', ...ending }
}

export function handleOf(id: string, labels: Readonly<Record<string, string>>): Handle {
  return { sandboxId: sandboxOf(labels), data: { container: id, token: labels[TOKEN] ?? '' } }
}

export function sandboxOf(labels: Readonly<Record<string, string>>): SandboxId {
  return parseSandboxId(labels[SANDBOX] ?? '')
}
