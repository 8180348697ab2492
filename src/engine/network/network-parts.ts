/** What the engine needs to connect sandboxes to the network. */
import type { NetCounts } from '../../core/network.ts'
import type { EgressDoor } from '../../core/provider.ts'
import type { LinkSpec } from '../../egress/control/link-spec.ts'
import type { SealedBox } from '../../secrets/sealed-box.ts'
import type { SecretStore } from '../../store/secrets.ts'

/** What the egress process is told about a sandbox, without its socket. */
export type LinkRules = Omit<LinkSpec, 'socket'>

/**
 * The links of the egress process. Links that are open here are opened again whenever the process restarts.
 */
export interface EgressLinks {
  /**
   * Opens a link or replaces its rules. Does not wait; until the link is open, nothing leaves the sandbox.
   */
  open(rules: LinkRules, door: EgressDoor): void
  close(sandbox: string): void
  /** Undefined while the egress process does not answer. */
  counts(sandbox: string): Promise<NetCounts | undefined>
}

/** Left out if sandboxes have no network. */
export interface NetworkParts {
  readonly egress: EgressLinks
  readonly secrets: SecretStore
  readonly box: SealedBox
  /** The certificates that this machine trusts, as PEM. */
  hostRoots(): string
  /** Whether they are in the bundle that programs of the `host` base find on their own. */
  readonly isSystemBundle: boolean
}
