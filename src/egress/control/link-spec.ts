/** What the server tells the egress process about one sandbox. See spec/egress-protocol.md. */
import type { HeaderRule, Interception } from '../../core/network.ts'
import type { BoundSecret } from '../../core/secret.ts'
import type { NetworkPolicy } from '../../policy/decide.ts'

/** The certificate authority of one sandbox. Its key never enters the sandbox. */
export interface LinkAuthority {
  readonly cert: string
  readonly key: string
}

export interface LinkSpec {
  readonly sandbox: string
  /** The socket on which podd listens. */
  readonly socket: string
  readonly policy: NetworkPolicy
  readonly secrets: readonly BoundSecret[]
  /**
   * Absent if the sandbox trusts no authority of AgentPod: TLS is then never decrypted, and refused with an
   * alert.
   */
  readonly authority?: LinkAuthority | undefined
  readonly intercept: Interception
  readonly headers?: readonly HeaderRule[] | undefined
  /** Where the server passes connections to members of the sandbox's group on. */
  readonly memberSocket?: string | undefined
  /** Bytes a second in each direction, for all its connections together; no limit if absent. */
  readonly bandwidthBytes?: number | undefined
  /** Whether its requests may use the package cache. */
  readonly cache?: boolean | undefined
  /** Whether token usage is counted in responses to requests with a secret. */
  readonly meter?: boolean | undefined
}
