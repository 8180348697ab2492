/**
 * Tokens of one sandbox: to its data plane, and to its private ports. They are derived from the server's secret and the
 * sandbox's id, so that nothing has to be stored to check one, and a sandbox that is gone takes its tokens with it.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { SandboxId } from '../core/id.ts'

export interface Access {
  /** Opens the data plane: processes and files. */
  dataToken(id: SandboxId): string
  /** Opens the ports that are not public. */
  trafficToken(id: SandboxId): string
}

export function access(secret: string): Access {
  const derive = (purpose: string, id: SandboxId): string =>
    createHmac('sha256', secret).update(`${purpose}:${id}`).digest('hex')
  return {
    dataToken: (id) => derive('data', id),
    trafficToken: (id) => derive('traffic', id),
  }
}

/** Compares in a time that does not tell how much was right. */
export function isSame(given: string | undefined, expected: string): boolean {
  if (given === undefined) return false
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}

export interface SignedFile {
  readonly path: string
  readonly operation: 'read' | 'write'
  /** As in the request; empty when it names none. */
  readonly user: string
  /** Unix seconds, as in the request. */
  readonly expiration: string | undefined
}

/** E2B's signature of a file's address: one file, one operation, one user, for as long as it says. */
export function signature(file: SignedFile, token: string): string {
  const parts = [file.path, file.operation, file.user, token]
  if (file.expiration !== undefined) parts.push(file.expiration)
  return `v1_${createHash('sha256').update(parts.join(':')).digest('base64').replace(/=+$/, '')}`
}

/** Whether the token's holder signed it; for how long is another question. */
export function isSigned(file: SignedFile, given: string, token: string): boolean {
  // SECURITY: parts are joined with colons, and a path may have some; a user may not, or one file's signature would be another's.
  if (file.user.includes(':')) return false
  return isSame(given, signature(file, token))
}

/** Good to the end of the second it names, as at E2B. */
export function isExpired({ expiration }: SignedFile, nowMs: number): boolean {
  return expiration !== undefined && !(Number(expiration) >= Math.floor(nowMs / 1000))
}
