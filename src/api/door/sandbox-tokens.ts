/**
 * The tokens of a sandbox: one for its data plane, one for its private ports; and the token of a volume. They
 * are derived from the server's secret and the id, so the server stores none of them, and they are useless
 * once the sandbox or volume is gone.
 */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type { SandboxId, VolumeId } from '../../core/id.ts'

export interface SandboxTokens {
  /** Opens the data plane: processes and files. */
  dataToken(id: SandboxId): string
  /** Opens its private ports. */
  trafficToken(id: SandboxId): string
  /** Opens the files of a volume. */
  volumeToken(id: VolumeId): string
  /** Signs a text that names what it allows. */
  sign(text: string): string
}

export function sandboxTokens(secret: string): SandboxTokens {
  const derive = (purpose: string, id: SandboxId | VolumeId): string =>
    createHmac('sha256', secret).update(`${purpose}:${id}`).digest('hex')
  return {
    dataToken: (id) => derive('data', id),
    trafficToken: (id) => derive('traffic', id),
    volumeToken: (id) => derive('volume', id),
    sign: (text) => createHmac('sha256', secret).update(`sign:${text}`).digest('hex'),
  }
}

/** Compares in constant time. */
export function isSameToken(given: string | undefined, expected: string): boolean {
  if (given === undefined) return false
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}
