/** What the server tells the egress process of one sandbox, and what it hears back. See spec/egress-protocol.md. */
import type { HeaderRule, Interception } from '../core/network.ts'
import type { BoundSecret } from '../core/secret.ts'
import type { NetworkPolicy } from '../policy/decide.ts'

/** A certificate authority of one sandbox. Its key never goes inside. */
export interface LinkAuthority {
  readonly cert: string
  readonly key: string
}

export interface LinkSpec {
  readonly sandbox: string
  /** Where podd waits to be dialled. */
  readonly socket: string
  readonly policy: NetworkPolicy
  readonly secrets: readonly BoundSecret[]
  /** Absent where the sandbox trusts no authority of ours: TLS is then never opened, and refused with an alert. */
  readonly authority?: LinkAuthority | undefined
  readonly intercept: Interception
  readonly headers?: readonly HeaderRule[] | undefined
  /** Whether answers to its requests may be taken from the cache of packages, and put there. */
  readonly cache?: boolean | undefined
  /** Whether answers of models to requests with a secret are counted. */
  readonly meter?: boolean | undefined
}
