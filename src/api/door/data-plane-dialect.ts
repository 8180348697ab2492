/** The seam between the TCP listener and the API whose clients reach into sandboxes through it. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SandboxId } from '../../core/id.ts'

export interface SandboxTarget {
  readonly kind: 'sandbox'
  /** As the request gives it; not yet checked to be an id. */
  readonly id: SandboxId
  readonly port: number
}

/**
 * `open`: the call needs no proof. `token`: the request carried the sandbox's token. `signature`: a signed
 * address.
 */
export type DataAccess = 'open' | 'token' | 'signature'

/** How clients of such an API name a sandbox, prove that they may enter it, and read errors. */
export interface DataPlaneDialect {
  /** Requests to this port of a sandbox go to the guest itself; all other ports belong to programs inside. */
  readonly dataPort: number
  /** Which rules file calls follow inside the sandbox; forwarded to the guest. */
  readonly fileRules: string
  /** The sandbox that a request to the API's own host is for. Undefined means the API itself. */
  targetOf(request: IncomingMessage): SandboxTarget | undefined
  /**
   * Checks the proof that a request for the data plane carries, and throws `unauthenticated` without one.
   * `mayAct` says whether the owner's key is still valid. May rewrite the URL to exactly what was proven.
   */
  checkData(request: IncomingMessage, id: SandboxId, mayAct: boolean): DataAccess
  /** The token for a private port, where the request carries one in a header. */
  trafficToken(request: IncomingMessage): string | undefined
  /**
   * The owner for whom a request to the API itself may act because it carries a token for exactly what its
   * path names. Undefined if it carries none: it then needs a key.
   */
  ownerByToken(request: IncomingMessage): string | undefined
  /** Whether clients of this API expect its errors on a path of the API's host. */
  ownsPath(path: string): boolean
  answerError(response: ServerResponse, error: unknown): void
  /** Answers an error of a request for a sandbox, on the data port or another one. */
  answerSandboxError(
    request: IncomingMessage,
    response: ServerResponse,
    target: SandboxTarget,
    error: unknown,
  ): void
}
