/**
 * The tokens of a sandbox: one for its data plane, one for its private ports. They are derived from the
 * server's secret and the sandbox's id, so the server stores none of them, and they are useless once the
 * sandbox is gone.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { SandboxId } from '../../core/id.ts'

export interface SandboxTokens {
  /** Opens the data plane: processes and files. */
  dataToken(id: SandboxId): string
  /** Opens its private ports. */
  trafficToken(id: SandboxId): string
}

export function sandboxTokens(secret: string): SandboxTokens {
  const derive = (purpose: string, id: SandboxId): string =>
    createHmac('sha256', secret).update(`${purpose}:${id}`).digest('hex')
  return {
    dataToken: (id) => derive('data', id),
    trafficToken: (id) => derive('traffic', id),
  }
}

/** Compares in constant time. */
export function isSameToken(given: string | undefined, expected: string): boolean {
  if (given === undefined) return false
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}
