/** What the engine needs of the way out of sandboxes. */
import type { NetCounts } from '../core/network.ts'
import type { EgressDoor } from '../core/provider.ts'
import type { LinkSpec } from '../egress/control.ts'
import type { Box } from '../secrets/box.ts'
import type { SecretStore } from '../store/secrets.ts'

/** Everything that the egress process is told of a sandbox but where it is. */
export type LinkRules = Omit<LinkSpec, 'socket'>

/** The egress process, wherever it runs. What is opened here is opened again whenever it comes back. */
export interface WayOut {
  /** Makes the link, or replaces what is known of it. Does not wait: until it stands, nothing leaves. */
  open(rules: LinkRules, door: EgressDoor): void
  close(sandbox: string): void
  /** Undefined while the egress process cannot be asked. */
  counts(sandbox: string): Promise<NetCounts | undefined>
}

/** Left out where sandboxes have no network. */
export interface NetworkParts {
  readonly wayOut: WayOut
  readonly secrets: SecretStore
  readonly box: Box
  /** The certificates that this machine trusts, PEM. */
  hostRoots(): string
  /** Whether they are in the bundle that programs of the host base find by themselves. */
  readonly isSystemBundle: boolean
}
